"""AliasLDA: latent Dirichlet allocation by collapsed Gibbs sampling (Li et al. 2014)."""

from functools import partial
from numbers import Integral, Real

from sklearn_sparsepost._checks import MOST_INTEGER, PRIOR, Interval, StrOptions
from sklearn_sparsepost._docs import with_shared_texts
from sklearn_sparsepost._sampled_topics import BaseSampledTopics
from sklearn_sparsepost._sampling import blocks, lda, pitman_yor, pitman_yor_blocks, process

# A discount to begin with that is learned, and shares of the words' number for concentrations: one
# that is not learned, and one to begin with that is.
FIRST_DISCOUNT, CONCENTRATION, FIRST_CONCENTRATION = 0.1, 0.07, 0.1
# Concentrations of processes to begin with that are learned.
FIRST_DOC_CONCENTRATION, FIRST_TOPIC_CONCENTRATION = 0.5, 10.0
# Slots that topics have at the least, and as a multiple of those to begin with, if nothing is said.
LEAST_SLOTS, MORE_SLOTS = 100, 2
# Candidates for all first clusters together: sweeps improve on poor ones. What they hardly find are
# topics of few documents, so that candidates are drawn among many: in all, and a topic.
TRIALS, SEEDED, SEEDED_A_TOPIC = 2560, 20_000, 10
# Sweeps, at the most, before tokens sit at tables.
UNSEATED = 30


@with_shared_texts
class AliasLDA(BaseSampledTopics):
    """Latent Dirichlet allocation by collapsed Gibbs sampling.

    Every token has a topic; sweeps over all tokens draw each topic anew given all others. What a
    draw costs hardly depends on `n_components`: it weighs the topics of the document or those of
    the word, and what all others weigh is known in sum or stands in alias tables (Li et al. [1]_).

    Read more in the :ref:`User Guide <alias_lda>`.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics, K. Under ``doc_topic_prior_type="dirichlet_process"`` the number to begin
        with; the fitted `n_components_` is another.

    sampler : {"auto", "by_word", "alias", "sparse", "cycle", "dense"}, default="auto"
        How a token's topic is drawn. All aim at the same posterior; see the notes.

        - "by_word": tokens are visited word by word, and the document's topics are weighed by what
          the word weighs in them, which one table has at hand (Yu et al. [8]_).
        - "alias": the document's topics are weighed exactly; a stale alias table of the word
          proposes the others, and Metropolis-Hastings corrects [1]_.
        - "sparse": the word's topics are weighed (Yao, Mimno & McCallum [2]_).
        - "cycle": a stale table of the word and a token of the document propose in turn, in
          constant time (Yuan et al. [3]_); needs more sweeps.
        - "dense": all topics are weighed, a vector at a time.
        - "auto": "by_word"; "alias" for corpora of more than 2**31 tokens or with a document of
          2**(32 - b) and more, where b bits tell topics apart, which "by_word" samples as "sparse".

    n_mh_steps : int, default=1
        Metropolis-Hastings steps a token of "alias" and "cycle".

    doc_topic_prior : float, "auto" or array-like of shape (n_components,), default=None
        Dirichlet prior alpha of each topic's weight in a document. By default
        ``0.5 / n_components``. "auto" starts there and learns one value a topic, by fixed-point
        steps between sweeps (Minka [4]_, Eq. 55). None under "dirichlet_process".

    doc_topic_prior_type : {"dirichlet", "dirichlet_process"}, default="dirichlet"
        Where documents' topic weights come from.

        - "dirichlet": from the Dirichlet distribution of `doc_topic_prior`.
        - "dirichlet_process": from Dirichlet processes around weights over the corpus that are
          broken off a stick, a hierarchical Dirichlet process [6]_. Topics without tokens are
          offered in every sweep, and those that lose all tokens go, so that their number is found.
          Combines with every sampler and `topic_word_prior_type`.

    doc_concentration : float or "auto", default="auto"
        Concentration b_1 of the documents' processes of "dirichlet_process": the larger, the more
        topics a document has. "auto" starts at 0.5 and draws it every `learn_every` sweeps, under
        an exponential prior of mean 1.

    topic_concentration : float or "auto", default="auto"
        Concentration b_0 of the topics' weights over the corpus of "dirichlet_process": the larger,
        the more topics there are. "auto" starts at 10 and draws it as `doc_concentration`.

    max_components : int, default=None
        The most topics of "dirichlet_process", at least `n_components`; the stick's last piece has
        all that is left. By default twice `n_components`, and at least 100. Counts of frequent
        words have room for as many.

    topic_word_prior : float, "auto" or array-like of shape (n_features,) or \
            (n_components, n_features), default=None
        Dirichlet prior beta of the topics' words: one value, one a word, or a matrix, whose larger
        entries seed topics with words. By default 0.1. "auto" starts there and learns one value.

    topic_word_prior_type : {"dirichlet", "pitman_yor"}, default="dirichlet"
        Where topics come from.

        - "dirichlet": from the Dirichlet distribution of `topic_word_prior`, each on its own.
        - "pitman_yor": from Pitman-Yor processes around one distribution of words, which all topics
          share and which has the prior `topic_word_prior`, one value or one a word [5]_. Frequent
          words are smoothed less and rare ones by how frequent they are anywhere, as the power
          laws of language want it. All samplers but "cycle".

    discount : float or "auto", default="auto"
        Discount a of "pitman_yor", from 0, a Dirichlet process, to less than 1. "auto" starts at
        0.1 and draws it every `learn_every` sweeps, under a uniform prior.

    concentration : float or "auto", default=None
        Concentration b of "pitman_yor", by default ``0.07 * n_features``. "auto" starts at
        ``0.1 * n_features`` and draws it every `learn_every` sweeps, under an exponential prior of
        that mean: it becomes smaller, `discount` larger, and held-out words of some corpora less
        likely.

    init : {"k-means++", "random", "anchor"} or array-like of shape (n_components, n_features), \
            default="k-means++"
        The topics under which the first assignments are drawn, as in :class:`SparseLDA`, each
        topic likelier the more of the document's tokens have it already. "k-means++" has fewer
        candidates the more topics there are, and documents change clusters only under
        "pitman_yor". There the first sweeps are those of "dirichlet", half of `burn_in` but 30 at
        the most, in which first topics part sooner.
        "random" draws uniformly, as other samplers do.

    max_iter : int, default=100
        Number of sweeps.

    burn_in : int, default=None
        Sweeps before samples are averaged; by default half of `max_iter`.

    sample_every : int, default=5
        Every so many sweeps after `burn_in` the counts are added to the average.

    learn_every : int, default=5
        Every so many sweeps priors are learned, if they are.

    evaluate_every : int, default=10
        Compute the log likelihood every so many sweeps, 0 for never.

    sparse_output : bool, default=False
        Whether :meth:`transform` returns CSR with a document's active topics only.

    {warm_start}

    {n_jobs}
        They are threads over blocks of the data, whatever the backend.

    {random_state}

    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Prior plus counts of words in topics, averaged over samples; if no sample was taken, those
        of the last sweep. Under "dirichlet_process" the `n_components_` topics that have tokens
        after the last sweep, those with the most first.

    n_components_ : int
        Number of topics in use; only with "dirichlet_process", where `components_` and what
        follows from it have so many.

    topic_word_distr_ : ndarray of shape (n_components, n_features)
        The topics' expected word probabilities; rows sum to 1.

    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior alpha in use; under "dirichlet_process" ``doc_concentration_ * topic_weights_``.

    topic_weights_ : ndarray of shape (`n_components_`,)
        The topics' weights over the corpus, which with those of all topics not in use sum to 1;
        only with "dirichlet_process".

    doc_concentration_, topic_concentration_ : float
        Those in use; only with "dirichlet_process".

    topic_word_prior_ : float or ndarray
        The prior of the topics' words in use, of the shape given.

    discount_, concentration_ : float
        Those in use; only with "pitman_yor".

    base_word_distr_ : ndarray of shape (n_features,)
        What the topics share, averaged over samples; only with "pitman_yor", whose `components_`
        are counts less the discount a table, plus ``concentration_ + discount_ * tables`` of the
        topic times this.

    log_likelihood_history_ : ndarray of shape (`n_iter_`,)
        log p(words, topics) of each sweep's end, the weights integrated out, in nats a token; NaN
        where it was not computed.

    n_samples_averaged_ : int
        Number of sweeps whose counts `components_` averages.

    n_iter_ : int
        Number of sweeps made.

    {features}

    See Also
    --------
    SparseLDA : Variational inference, which is faster to good topics.
    GibbsCTM : Topics that are correlated.

    Notes
    -----
    Fractional counts are rounded at random once, up with the probability of their fraction, since
    a topic is drawn for every token; a warning says so. Priors may be from 1e-30 to 1e30.

    Corpora of more than 65,536 tokens are sampled in blocks of documents and words. Blocks that
    run at the same time share neither, so that the counts of words and of documents are always up
    to date; only the totals of topics are as old as the blocks' common start. Of such corpora the
    posterior is the stationary distribution of no sampler exactly, with one thread or with many.
    Which blocks there are depends on the data alone.

    The blocks of a Dask array are swept side by side, too, each on counts of words that lack what
    the others change in the same sweep (Newman et al. [7]_), so that the chain is another one than
    that of the same rows in memory, and depends on the blocks. The more blocks there are and the
    fewer tokens each has, the staler these counts; what that costs is in :ref:`the user guide
    <chains_over_blocks>`. Under "pitman_yor" what blocks change in tables is added up, too, and the
    tables are then drawn given all tokens. Counts must be whole.

    Metropolis-Hastings with tables of a while ago leaves the posterior unchanged only if the
    tables do not depend on the present state. They are therefore built anew ever more rarely as
    the chain goes on (in the first sweeps after as many draws as they have entries [1]_), so that
    what error there is dies away.

    With "pitman_yor" a word of a topic sits at tables: one token of each was drawn from what topics
    share. A word has at most 255 of them in a topic; where more would be opened its tokens join
    those that are there. A table of Stirling numbers takes 2 KiB for each number of tokens up to
    512 and 512 KiB for each doubling from there; in between it is interpolated.

    References
    ----------
    .. [1] A. Q. Li, A. Ahmed, S. Ravi, A. J. Smola. Reducing the sampling complexity of topic
       models. KDD 2014.
    .. [2] L. Yao, D. Mimno, A. McCallum. Efficient methods for topic model inference on streaming
       document collections. KDD 2009.
    .. [3] J. Yuan et al. LightLDA: big topic models on modest computer clusters. WWW 2015.
    .. [4] T. P. Minka. Estimating a Dirichlet distribution. Technical report, MIT, 2000.
    .. [5] C. Chen, L. Du, W. Buntine. Sampling table configurations for the hierarchical
       Poisson-Dirichlet process. ECML PKDD 2011.
    .. [6] Y. W. Teh, M. I. Jordan, M. J. Beal, D. M. Blei. Hierarchical Dirichlet processes.
       Journal of the American Statistical Association 101, 2006.
    .. [7] D. Newman, A. Asuncion, P. Smyth, M. Welling. Distributed algorithms for topic models.
       Journal of Machine Learning Research 10, 2009.
    .. [8] H.-F. Yu, C.-J. Hsieh, H. Yun, S. V. N. Vishwanathan, I. S. Dhillon. A scalable
       asynchronous distributed algorithm for topic modeling. WWW 2015.

    Examples
    --------
    >>> from sklearn_sparsepost import AliasLDA
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, topics, _ = make_bars(500, random_state=0)
    >>> lda = AliasLDA(n_components=10, max_iter=50, random_state=0).fit(X)
    >>> lda.transform(X[:3]).shape
    (3, 10)

    The number of topics is found:

    >>> hdp = AliasLDA(n_components=20, doc_topic_prior_type="dirichlet_process", random_state=0)
    >>> hdp.fit(X).components_.shape == (hdp.n_components_, 25)
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "sampler": [StrOptions({"auto", "by_word", "alias", "sparse", "cycle", "dense"})],
        "n_mh_steps": [Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "doc_topic_prior": [
            None,
            StrOptions({"auto"}),
            PRIOR,
            "array-like",
        ],
        "doc_topic_prior_type": [StrOptions({"dirichlet", "dirichlet_process"})],
        "doc_concentration": [StrOptions({"auto"}), PRIOR],
        "topic_concentration": [StrOptions({"auto"}), PRIOR],
        "max_components": [None, Interval(Integral, 1, MOST_INTEGER, closed="both")],
        "topic_word_prior": [
            None,
            StrOptions({"auto"}),
            PRIOR,
            "array-like",
        ],
        "topic_word_prior_type": [StrOptions({"dirichlet", "pitman_yor"})],
        "discount": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "concentration": [StrOptions({"auto"}), PRIOR, None],
        "init": [StrOptions({"k-means++", "random", "anchor"}), "array-like"],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "sample_every": [Interval(Integral, 1, None, closed="left")],
        "learn_every": [Interval(Integral, 1, None, closed="left")],
        "evaluate_every": [Interval(Integral, 0, None, closed="left")],
        "sparse_output": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [None, Interval(Integral, None, None, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=10,
        *,
        sampler="auto",
        n_mh_steps=1,
        doc_topic_prior=None,
        doc_topic_prior_type="dirichlet",
        doc_concentration="auto",
        topic_concentration="auto",
        max_components=None,
        topic_word_prior=None,
        topic_word_prior_type="dirichlet",
        discount="auto",
        concentration=None,
        init="k-means++",
        max_iter=100,
        burn_in=None,
        sample_every=5,
        learn_every=5,
        evaluate_every=10,
        sparse_output=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sampler = sampler
        self.n_mh_steps = n_mh_steps
        self.doc_topic_prior = doc_topic_prior
        self.doc_topic_prior_type = doc_topic_prior_type
        self.doc_concentration = doc_concentration
        self.topic_concentration = topic_concentration
        self.max_components = max_components
        self.topic_word_prior = topic_word_prior
        self.topic_word_prior_type = topic_word_prior_type
        self.discount = discount
        self.concentration = concentration
        self.init = init
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.sample_every = sample_every
        self.learn_every = learn_every
        self.evaluate_every = evaluate_every
        self.sparse_output = sparse_output
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ how it is sampled

    # Sweeps leave documents' first topics, where these are inferred, more slowly than none.
    _infers_first = False

    @property
    def _seats(self):
        return self.topic_word_prior_type == "pitman_yor"

    @property
    def _grows(self):
        return self.doc_topic_prior_type == "dirichlet_process"

    @property
    def _learns_prior(self):
        return self._grows or super()._learns_prior

    @property
    def _n_slots(self):
        """The most topics."""
        if not self._grows:
            return self.n_components
        if self.max_components is None:
            return max(MORE_SLOTS * self.n_components, LEAST_SLOTS)
        return self.max_components

    @property
    def _seeding(self):
        return {
            "n_local_trials": min(max(TRIALS // self.n_components, 8), 256),
            "max_samples": max(SEEDED, SEEDED_A_TOPIC * self.n_components),
            "n_refine": int(self._seats),  # tokens that sit at tables move less far
        }

    @property
    def _has_point_topics(self):
        # The pseudo-counts of most words are far below 1, where exp(E[log phi]) vanishes.
        return self._seats

    @property
    def _chain_type(self):
        if self._grows:
            return process.ProcessPitmanYorChain if self._seats else process.ProcessChain
        return pitman_yor.PitmanYorChain if self._seats else lda.LDAChain

    @property
    def _blocks_chain_type(self):
        if self._grows:
            seated = pitman_yor_blocks.ProcessPitmanYorInBlocks
            return seated if self._seats else blocks.ProcessInBlocks
        return pitman_yor_blocks.PitmanYorInBlocks if self._seats else blocks.LDAInBlocks

    def _resolve_priors(self, n_features):
        if self._grows and self.doc_topic_prior is not None:
            raise ValueError(
                "doc_topic_prior is given, but under doc_topic_prior_type='dirichlet_process' it "
                "is doc_concentration times weights that are learned"
            )
        if self._n_slots < self.n_components:
            raise ValueError(
                f"max_components={self.max_components} is less than "
                f"n_components={self.n_components}"
            )
        alpha, beta = super()._resolve_priors(n_features)
        if self._seats and self.sampler == "cycle":
            raise ValueError("sampler='cycle' has no topic_word_prior_type='pitman_yor'")
        if self._seats and beta.ndim == 2:
            raise ValueError(
                "topic_word_prior is a matrix, but under topic_word_prior_type='pitman_yor' topics "
                "share one distribution of words: give one value or one a word"
            )
        if self._grows and beta.ndim == 2:
            raise ValueError(
                "topic_word_prior is a matrix, but under doc_topic_prior_type='dirichlet_process' "
                "topics come and go: give one value or one a word"
            )
        return alpha, beta

    def _check_goes_on(self):
        begun_with = getattr(self, "_begun_with", None)
        if self._grows != (begun_with is not None):
            raise ValueError(
                f"doc_topic_prior_type={self.doc_topic_prior_type!r}, but the fitted topics to "
                "go on with are of the other type"
            )
        if not self._grows:
            super()._check_goes_on()
        elif begun_with != (self.n_components, self._n_slots):
            raise ValueError(
                f"n_components={self.n_components} and max_components={self._n_slots}, but the "
                f"topics to go on with were fitted with {begun_with[0]} and {begun_with[1]}"
            )
        kept = getattr(self, "_fit_state", None)
        if kept is not None and type(kept) not in (self._chain_type, self._blocks_chain_type):
            raise ValueError(
                f"topic_word_prior_type={self.topic_word_prior_type!r}, but the fitted topics to "
                "go on with are of the other type"
            )

    def _new_chain(self, X, dtype):
        chain = super()._new_chain(X, dtype)
        if self._seats:
            chain.n_unseated = min(UNSEATED, self._n_burnt // 2)
        return chain

    def _settings(self, alpha, beta, n_features, goes_on=False):
        prior = lda.WordPrior(beta, n_features, self._n_slots)
        settings = {"prior": prior, "sampler": self.sampler}
        first = {}
        if self._grows:
            settings["n_components"] = self._n_slots
            first["doc_concentration"] = FIRST_DOC_CONCENTRATION
            first["topic_concentration"] = FIRST_TOPIC_CONCENTRATION
        else:
            settings["alpha"] = alpha
        if self._seats:
            first["discount"] = FIRST_DISCOUNT
            first["concentration"] = FIRST_CONCENTRATION * n_features
        for name, value in first.items():
            given = getattr(self, name)
            if isinstance(given, str):
                given = getattr(self, name + "_", value) if goes_on else value
            settings[name] = float(CONCENTRATION * n_features if given is None else given)
        return settings

    def _fitted_attributes(self, state, *, whole):
        attributes = super()._fitted_attributes(state, whole=whole)
        if self._grows:
            attributes["_begun_with"] = self.n_components, self._n_slots
        return attributes

    def _store(self, state, **how):
        super()._store(state, **how)
        of_others = []
        if not self._seats:
            of_others += ["discount_", "concentration_", "base_word_distr_"]
        if not self._grows:
            of_others += ["doc_concentration_", "topic_concentration_", "topic_weights_"]
            of_others += ["n_components_", "_begun_with"]
        for name in of_others:
            vars(self).pop(name, None)  # of an earlier fit

    def _line(self, chain):
        line = super()._line(chain)
        return f"{line}, {len(chain.used())} topics" if self._grows else line

    def _steps(self):
        learn = []
        of = {
            "of_documents": isinstance(self.doc_concentration, str),
            "of_topics": isinstance(self.topic_concentration, str),
        }
        if self._grows and any(of.values()):
            learn.append(partial(process.learn_concentrations, **of))
        if self._learns_prior and not self._grows:
            learn.append(lda.learn_alpha)
        if self._learns_word_prior:
            learn.append(pitman_yor.learn_base if self._seats else lda.learn_beta)
        if self._seats and isinstance(self.concentration, str):
            learn.append(pitman_yor.learn_concentration)
        if self._seats and isinstance(self.discount, str):
            learn.append(pitman_yor.learn_discount)
        return partial(lda.sweep, n_steps=self.n_mh_steps), learn
