"""Corpora to learn from: docstrings that are already installed, and draws from the model."""

import importlib
import inspect
import pkgutil
import re
import warnings
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch, check_random_state

from sklearn_sparsepost._checks import check_count, positive_array
from sklearn_sparsepost._models.documents import draw_dirichlet
from sklearn_sparsepost._models.priors import feature_prior

__all__ = ["load_docstrings", "make_bars", "make_lda_corpus"]

LIBRARIES = ("numpy", "scipy", "sklearn")

# Modules that are about building or testing, or that change the process when imported.
SKIPPED_MODULES = {
    "conftest",
    "core",
    "distutils",
    "estimator_checks",
    "experimental",
    "externals",
    "f2py",
    "matlib",
    "mypy_plugin",
    "setup",
    "testing",
    "tests",
    "testutils",
}
# The test runners, and what is public only once sklearn.experimental was imported.
SKIPPED_OBJECTS = {"test", "HalvingGridSearchCV", "HalvingRandomSearchCV", "IterativeImputer"}

# Directives whose text is prose; any other is dropped with its text.
ADMONITIONS = {
    "admonition",
    "attention",
    "caution",
    "danger",
    "dropdown",
    "error",
    "hint",
    "important",
    "note",
    "rubric",
    "seealso",
    "tip",
    "topic",
    "warning",
}

# Titles of parts that do not tell about the object; the second part is the same everywhere.
SKIPPED_SECTIONS = {"References", "**Array API Standard Support**"}

SIGNATURES = re.compile(r"\A(?:[\w.]+\((?:[^()]|\([^()]*\))*\)[ ]*(?:->.*)?(?:\n\s*|\Z))+")
RULE = re.compile(r"[=\-~^*\"#+_]{3}[=\-~^*\"#+_ ]*$")
DIRECTIVE = re.compile(r"\.\.\s+(?:([\w:-]+)::)?\s*(.*)$")

# Inline markup and what it becomes, in this order.
INLINE = [
    (re.compile(r":math:`[^`]*`"), ""),
    (re.compile(r"\[[^\[\]]+\]_(?!\w)"), ""),  # citations
    (re.compile(r":[\w:+-]+:(?=`)"), ""),  # roles
    (re.compile(r" ?<[^<>`]*>(?=`)"), ""),  # targets of links that have a text
    (re.compile(r"`[~!]?|(?<=`)__?\b"), ""),
    (re.compile(r"(?:https?://|\bsphx_glr_)\S+"), ""),  # addresses, of gallery pages too
    (re.compile(r"::$", re.MULTILINE), ":"),
]

DOCSTRINGS_DESCR = """\
.. _docstrings_dataset:

Docstrings of numpy, scipy and scikit-learn
-------------------------------------------

The documentation of the public functions, classes, methods, ufuncs and distributions of three
libraries, read from the installed packages: the corpus changes with their versions. Examples of
code and markup are removed, descriptions of parameters are kept.

:Classes: the libraries the objects are from
:Licence: BSD-3-Clause, as the libraries
"""


def _modules(module):
    """Yield a module and the public modules below it, whatever was imported before."""
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if info.name.startswith("_") or info.name in SKIPPED_MODULES:
            continue
        try:
            child = importlib.import_module(f"{module.__name__}.{info.name}")
        except ImportError:  # of an optional dependency
            continue
        yield from _modules(child)


def _home(obj):
    """Name of the module that an object, or its type, says it is from."""
    return getattr(obj, "__module__", None) or type(obj).__module__


def _public(members):
    """Pairs of name and object of a dictionary, without private names."""
    return [(name, obj) for name, obj in members.items() if not name.startswith("_")]


def _module_members(module):
    """Names and objects that a module lists or, without a list, defines; nothing lazy."""
    listed = vars(module).get("__all__")
    if listed is None:
        return [pair for pair in _public(vars(module)) if _home(pair[1]) == module.__name__]
    return _public({name: vars(module)[name] for name in listed if name in vars(module)})


def _methods(cls, library):
    """Names and functions of a class, its own and inherited ones that its library defines."""
    members = {}
    for base in reversed(cls.__mro__):
        if _home(base).partition(".")[0] == library:
            members.update(vars(base))
    unwrapped = [(name, getattr(obj, "__func__", obj)) for name, obj in _public(members)]
    return [pair for pair in unwrapped if inspect.isroutine(pair[1]) and _has_own_doc(pair[1])]


def _has_own_doc(obj):
    """Whether the docstring of an object is not just the one of its type."""
    return obj.__doc__ != type(obj).__doc__


def _belongs(obj, library):
    """Whether an object is a library's own; ufuncs do not tell."""
    return isinstance(obj, np.ufunc) or _home(obj).partition(".")[0] == library


def _named_objects(library):
    """Yield the public names of a library with the objects they stand for."""
    for module in _modules(importlib.import_module(library)):
        for name, obj in _module_members(module):
            if name in SKIPPED_OBJECTS or inspect.ismodule(obj) or not _belongs(obj, library):
                continue
            path = f"{module.__name__}.{name}"
            yield path, obj
            if inspect.isclass(obj):
                yield from ((f"{path}.{method}", func) for method, func in _methods(obj, library))


def _docstrings(libraries):
    """Docstrings by name, each object once under its shortest name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated modules warn when imported
        pairs = [pair for library in libraries for pair in _named_objects(library)]
        pairs.sort(key=lambda pair: (len(pair[0]), pair[0]))
        objects = {}
        for name, obj in pairs:
            objects.setdefault(id(obj), (name, obj))
        docs = {name: obj.__doc__ for name, obj in objects.values()}
    return {name: doc for name, doc in docs.items() if isinstance(doc, str)}


def _is_heading(lines, at):
    """Whether a line is the title of a section: a rule is below it, in one piece."""
    below = lines[at + 1].strip() if at + 1 < len(lines) else ""
    return bool(RULE.match(below)) and " " not in below


def _indent(line):
    """Number of leading blanks."""
    return len(line) - len(line.lstrip())


def _prose_lines(lines):
    """Yield the lines that are text: no code, no markup, no section that is skipped."""
    block = None  # indent of the line whose indented block is dropped
    in_example = in_skipped = False
    for at, line in enumerate(lines):
        text = line.strip()
        if not text:
            in_example = False
            continue
        if block is not None and _indent(line) > block:
            continue
        block = None
        heading = _is_heading(lines, at)
        if heading or text in SKIPPED_SECTIONS:
            in_skipped = text in SKIPPED_SECTIONS
            continue
        in_example = in_example or text.startswith(">>>")
        if in_example or in_skipped or RULE.match(text):
            continue
        directive = DIRECTIVE.match(text)
        dropped = directive is not None and directive[1] not in ADMONITIONS
        if dropped or (directive is None and text.endswith("::")):
            block = _indent(line)
        if not dropped:
            yield directive[2] if directive else text


def _clean(doc):
    """Text of a docstring: see the notes of `load_docstrings`."""
    lines = SIGNATURES.sub("", inspect.cleandoc(doc)).splitlines()
    text = "\n".join(filter(None, _prose_lines(lines)))
    for pattern, replacement in INLINE:
        text = pattern.sub(replacement, text)
    return text


def _check_libraries(libraries):
    """Return the chosen libraries in the order of LIBRARIES, or raise a ValueError."""
    chosen = [] if isinstance(libraries, str) or not np.iterable(libraries) else list(libraries)
    if not chosen or any(name not in LIBRARIES for name in chosen):
        raise ValueError(f"libraries must be some of {LIBRARIES}, in a list, got {libraries!r}")
    return [name for name in LIBRARIES if name in chosen]


def load_docstrings(*, libraries=LIBRARIES, min_words=20, return_X_y=False):
    """Load the docstrings of numpy, scipy and scikit-learn as a corpus of some thousand texts.

    The docstrings are read from the installed packages, so that nothing is downloaded. The same
    versions give the same corpus, in the same order.

    =================   =====================================
    Classes                                                 3
    Samples total       a few thousand, of uneven class sizes
    Dimensionality                                       text
    =================   =====================================

    Parameters
    ----------
    libraries : list-like of {"numpy", "scipy", "sklearn"}, \
            default=("numpy", "scipy", "sklearn")
        Libraries to read. Their order does not matter.
    min_words : int, default=20
        Texts with fewer words after cleaning, as separated by white space, are left out.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch object.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : list of str of shape (n_samples,)
            The texts.
        names : ndarray of shape (n_samples,)
            The name that each object is imported by, like ``"scipy.stats.norm"``, sorted.
        target : ndarray of shape (n_samples,)
            The library of each object, as an index into `target_names`.
        target_names : list of str
            The libraries.
        DESCR : str
            What the corpus is.

    (data, target) : tuple if `return_X_y` is True
        The texts and their libraries, as above.

    Raises
    ------
    ValueError
        If `libraries` is empty or names another library, or if `min_words` is not an integer or
        is negative.

    See Also
    --------
    make_lda_corpus : Draw a corpus from the model.
    sklearn.datasets.fetch_20newsgroups : A corpus to download.

    Notes
    -----
    A document is the docstring of a public function, class, method, ufunc or other object, such as
    a distribution of `scipy.stats`. Nothing is public that has a leading underscore in its name or
    its module's name. Modules about building and testing, modules that cannot be imported for want
    of an optional dependency, the experimental estimators of scikit-learn and the wrappers of
    Fortran routines are left out. An object with several names is listed under the shortest, the
    first of these in the alphabet, and so are objects with the same text.

    These parts of a docstring are removed:

    - signatures at its beginning;
    - examples of code: from a line that begins with ``>>>`` to the next blank line;
    - literal blocks, that is, what is indented below a line that ends in ``::``;
    - titles and rules of sections and tables;
    - the section of references and, as hundreds of docstrings of scipy have the same, the
      paragraphs on the support of the Array API standard;
    - comments and directives with their content, formulas and ``versionadded`` among them, except
      that notes, warnings and other admonitions lose their marker only;
    - formulas in the text, citations, addresses of web pages;
    - the markup of roles, links and literals, of which the text is kept.

    The rest is kept, one line of text a line, without indentation and blank lines.

    Examples
    --------
    >>> from sklearn_sparsepost.datasets import load_docstrings
    >>> corpus = load_docstrings(libraries=["numpy", "scipy"])
    >>> corpus.target_names
    ['numpy', 'scipy']
    >>> "scipy.stats.norm" in corpus.names
    True
    """
    target_names = _check_libraries(libraries)
    check_count(min_words, "min_words", 0)
    texts = {}
    for name, doc in _docstrings(target_names).items():
        text = _clean(doc)
        if len(text.split()) >= min_words:
            texts.setdefault(text, name)
    pairs = sorted((name, text) for text, name in texts.items())
    data = [text for _, text in pairs]
    target = np.array([target_names.index(name.partition(".")[0]) for name, _ in pairs], dtype=int)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        names=np.array([name for name, _ in pairs], dtype=str),
        target=target,
        target_names=target_names,
        DESCR=DOCSTRINGS_DESCR,
    )


def _draw_doc_topic(n_samples, n_components, doc_topic_prior, rng):
    """Draw the topic weights of documents."""
    shapes = {"one value": (), "one a topic": (n_components,)}
    alpha = positive_array(doc_topic_prior, "doc_topic_prior", shapes)
    return draw_dirichlet(np.broadcast_to(alpha, (n_samples, n_components)), rng)


def _draw_lengths(n_samples, doc_length, rng):
    """Draw the lengths of documents, unless they are given."""
    if isinstance(doc_length, Real) and 0 < doc_length < np.inf:
        return rng.poisson(doc_length, n_samples)
    lengths = np.asarray(doc_length)
    if lengths.shape != (n_samples,) or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise ValueError(
            "doc_length must be a positive number or an array of non-negative integers of shape "
            f"({n_samples},), got {doc_length!r}"
        )
    return lengths


def _draw_words(lengths, doc_topic, components, rng):
    """Draw the words of documents: a topic for each, then a word from the topic."""
    n_samples, n_features = len(lengths), components.shape[1]
    sizes = [rng.multinomial(*pair) for pair in zip(lengths, doc_topic, strict=True)]
    rows, columns = [], []
    for counts, topic in zip(np.transpose(sizes), components, strict=True):
        cdf = np.cumsum(topic)
        cdf /= cdf[-1]  # the last is 1 then, and above any uniform draw
        rows.append(np.repeat(np.arange(n_samples), counts))
        columns.append(np.searchsorted(cdf, rng.random_sample(counts.sum()), side="right"))
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    ones = np.ones(len(rows), dtype=np.int32)
    return sp.coo_matrix((ones, (rows, columns)), shape=(n_samples, n_features)).tocsr()


def make_lda_corpus(
    n_samples=100,
    n_features=200,
    n_components=10,
    *,
    doc_topic_prior=0.1,
    topic_word_prior=0.1,
    doc_length=100,
    random_state=None,
):
    """Draw a corpus from latent Dirichlet allocation.

    Topics are drawn from a Dirichlet distribution over words and the topic weights of documents
    from one over topics. Each word of a document is drawn from a topic that is drawn from the
    document's weights [1]_.

    Parameters
    ----------
    n_samples : int, default=100
        Number of documents.
    n_features : int, default=200
        Number of words in the vocabulary.
    n_components : int, default=10
        Number of topics.
    doc_topic_prior : float or array-like of shape (n_components,), default=0.1
        Dirichlet parameters of the topic weights.
    topic_word_prior : float or array-like of shape (n_features,) or (n_components, n_features), \
            default=0.1
        Dirichlet parameters of the topics.
    doc_length : float or array-like of int of shape (n_samples,), default=100
        Mean length of documents, whose lengths are Poisson then, or the length of each.
    random_state : int, RandomState instance or None, default=None
        Determines the draws. Pass an int for the same corpus in every call. See
        :term:`random_state`.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features), int32
        How often each document has each word. A document may be empty.
    components : ndarray of shape (n_components, n_features)
        The topics; each row sums to 1.
    doc_topic : ndarray of shape (n_samples, n_components)
        Topic weights of the documents; each row sums to 1.

    Raises
    ------
    ValueError
        If a size is not a positive integer, a prior is not positive or has a wrong shape, or
        `doc_length` is neither a positive number nor `n_samples` non-negative integers.

    See Also
    --------
    make_bars : The same with topics that are rows and columns of an image.
    sklearn.datasets.make_multilabel_classification : Draw documents with labels.

    References
    ----------
    .. [1] Blei, D. M., Ng, A. Y. and Jordan, M. I. (2003). Latent Dirichlet allocation. Journal of
       Machine Learning Research, 3, 993-1022.

    Examples
    --------
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> X, components, doc_topic = make_lda_corpus(50, 30, 4, random_state=0)
    >>> X.shape, components.shape, doc_topic.shape
    ((50, 30), (4, 30), (50, 4))
    """
    check_count(n_samples, "n_samples", 1)
    check_count(n_features, "n_features", 1)
    check_count(n_components, "n_components", 1)
    rng = check_random_state(random_state)
    shape = (n_components, n_features)
    beta = feature_prior(topic_word_prior, 0.1, "topic_word_prior", *shape[::-1])
    components = draw_dirichlet(np.broadcast_to(beta, shape), rng)
    doc_topic = _draw_doc_topic(n_samples, n_components, doc_topic_prior, rng)
    lengths = _draw_lengths(n_samples, doc_length, rng)
    return _draw_words(lengths, doc_topic, components, rng), components, doc_topic


def make_bars(n_samples=100, side=5, *, doc_topic_prior=1.0, doc_length=100, random_state=None):
    """Draw images from the bars of Griffiths and Steyvers, a corpus with known topics.

    Words are the pixels of a square image and topics its rows and columns, uniform over their
    pixels. An image is a document: its topic weights are drawn from a Dirichlet distribution, and
    a pixel's intensity is how often it was drawn [1]_.

    Parameters
    ----------
    n_samples : int, default=100
        Number of images.
    side : int, default=5
        Number of pixels along a side, at least 2.
    doc_topic_prior : float or array-like of shape (2 * side,), default=1.0
        Dirichlet parameters of the topic weights.
    doc_length : float or array-like of int of shape (n_samples,), default=100
        Mean sum of an image's intensities, which is Poisson then, or the sum for each.
    random_state : int, RandomState instance or None, default=None
        Determines the draws. Pass an int for the same images in every call. See
        :term:`random_state`.

    Returns
    -------
    X : csr_matrix of shape (n_samples, side * side), int32
        Intensities of the pixels, row after row.
    components : ndarray of shape (2 * side, side * side)
        The topics, first the rows and then the columns of the image; each sums to 1.
    doc_topic : ndarray of shape (n_samples, 2 * side)
        Topic weights of the images; each row sums to 1.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive integer, `side` is not an integer above 1,
        `doc_topic_prior` is not positive or has a wrong shape, or `doc_length` is neither a
        positive number nor `n_samples` non-negative integers.

    See Also
    --------
    make_lda_corpus : Draw the topics as well.

    References
    ----------
    .. [1] Griffiths, T. L. and Steyvers, M. (2004). Finding scientific topics. Proceedings of the
       National Academy of Sciences, 101 (suppl. 1), 5228-5235.

    Examples
    --------
    >>> from sklearn_sparsepost.datasets import make_bars
    >>> X, components, doc_topic = make_bars(20, side=3, random_state=0)
    >>> components[0].reshape(3, 3) > 0
    array([[ True,  True,  True],
           [False, False, False],
           [False, False, False]])
    """
    check_count(n_samples, "n_samples", 1)
    check_count(side, "side", 2)
    rng = check_random_state(random_state)
    rows = np.kron(np.eye(side), np.ones(side))
    columns = np.tile(np.eye(side), side)
    components = np.vstack([rows, columns]) / side
    doc_topic = _draw_doc_topic(n_samples, 2 * side, doc_topic_prior, rng)
    lengths = _draw_lengths(n_samples, doc_length, rng)
    return _draw_words(lengths, doc_topic, components, rng), components, doc_topic
