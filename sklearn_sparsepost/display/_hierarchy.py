"""How topics hang together: a graph and a tree, as arrays and as pictures."""

import numpy as np
from scipy.cluster.hierarchy import cut_tree, leaves_list, linkage
from scipy.spatial.distance import squareform

from sklearn_sparsepost._checks import check_count, number_array
from sklearn_sparsepost.display._frame import canvas

# Steps in which a graph's nodes find their places, and the share of the picture of the first one.
LAYOUT_STEPS, FIRST_STEP = 300, 0.2
# Area of the node of a topic of average use, in square points.
NODE_AREA = 500


class CorrelatedTopics:
    """What the displays of correlated topics say of each: its words and its share.

    Parameters
    ----------
    summary : TopicSummary
        The topics.
    n_words : int
        Words that label a topic, or several together.
    """

    def __init__(self, summary, n_words):
        self.summary, self.n_words = summary, check_count(n_words, "n_words", 1)
        self.share = summary.size
        self.labels = [self._label([topic]) for topic in range(len(self.share))]

    def _label(self, members):
        return self.summary.label(members, self.n_words, by="probability").replace(", ", " ")


class TopicGraph(CorrelatedTopics):
    """The graph of the topics that go together.

    Parameters
    ----------
    correlation : ndarray of shape (n_components, n_components)
        Correlations of the topics.
    summary : TopicSummary
        The topics.
    threshold : float, default=0.2
        Topics with a correlation of at least this are joined.
    n_words : int, default=4
        Words that label a topic.

    Attributes
    ----------
    edges : ndarray of shape (n_edges, 2)
        Pairs of topics, the first one's number being the smaller, strongest edge first.
    weights : ndarray of shape (n_edges,)
        Their correlations.
    share : ndarray of shape (n_components,)
        Shares of all tokens.
    labels : list of str
        The topics' most probable words.
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    See Also
    --------
    sklearn_sparsepost.GibbsCTM.topic_graph : Makes it.

    Examples
    --------
    >>> from sklearn_sparsepost import GibbsCTM
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> X, _, _ = make_lda_corpus(200, 60, 4, random_state=0)
    >>> ctm = GibbsCTM(n_components=4, max_iter=20, random_state=0).fit(X)
    >>> graph = ctm.topic_graph(threshold=0.0)
    >>> graph.edges.shape[1], len(graph.labels)
    (2, 4)
    """

    def __init__(self, correlation, summary, threshold=0.2, n_words=4):
        super().__init__(summary, n_words)
        self.threshold = float(number_array(threshold, "threshold", {"one value": ()}, 0, 1))
        first, second = np.triu_indices(len(correlation), 1)
        weights = correlation[first, second]
        order = np.argsort(-weights, kind="stable")
        order = order[weights[order] >= self.threshold]
        self.edges = np.column_stack([first[order], second[order]])
        self.weights = weights[order]

    def to_networkx(self):
        """Make the graph of networkx, which must be installed.

        Returns
        -------
        graph : networkx.Graph
            Nodes have `share` and `label`, edges `weight`.
        """
        import networkx

        graph = networkx.Graph()
        for topic, (share, label) in enumerate(zip(self.share, self.labels, strict=True)):
            graph.add_node(topic, share=float(share), label=label)
        for (one, other), weight in zip(self.edges.tolist(), self.weights, strict=True):
            graph.add_edge(one, other, weight=float(weight))
        return graph

    def layout(self):
        """Find places for the nodes, joined ones near each other.

        Edges pull and all nodes push (Fruchterman & Reingold 1991), from a circle on; the edges of
        nodes that have many pull less. Nothing is drawn at random.

        Returns
        -------
        places : ndarray of shape (n_components, 2)
            In a square from 0 to 1.
        """
        n = len(self.share)
        pull = np.zeros((n, n))
        pull[self.edges[:, 0], self.edges[:, 1]] = self.weights
        pull += pull.T
        # Or nodes with many edges would lie on top of each other.
        degree = np.maximum((pull > 0).sum(axis=1), 1)
        pull /= np.sqrt(np.minimum(degree[:, None], degree[None]))
        angle = 2 * np.pi * np.arange(n) / n
        place = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 0.01 * np.arange(n)[:, None])
        length = 2 / np.sqrt(n)
        for step in np.linspace(FIRST_STEP, 0, LAYOUT_STEPS, endpoint=False):
            away = place[:, None] - place[None]
            distance = np.maximum(np.linalg.norm(away, axis=2), 1e-3)
            force = length**2 / distance**2 - pull * distance / length
            move = (away * force[:, :, None]).sum(axis=1) - 0.5 * place
            size = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
            place = place + move / size * np.minimum(size, step)
        low, high = place.min(axis=0), place.max(axis=0)
        return (place - low) / np.maximum(high - low, 1e-12)

    def plot(self, ax=None):
        """Draw the graph: nodes sized by use and labelled by words, edges by correlation.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : TopicGraph
            Itself, drawn.
        """
        ax = canvas(self, ax, (10, 8))
        place = self.layout()
        for (one, other), weight in zip(self.edges, self.weights, strict=True):
            ax.plot(*place[[one, other]].T, color="0.5", linewidth=5 * weight, alpha=0.6, zorder=1)
        area = NODE_AREA * self.share * len(self.share)
        ax.scatter(*place.T, s=area, color="#9ecae1", zorder=2)
        for (x, y), label in zip(place, self.labels, strict=True):
            text = label.replace(" ", "\n")
            ax.text(x, y, text, ha="center", va="center", fontsize=7, zorder=3)
        ax.margins(0.08)
        ax.set_axis_off()
        return self


class TopicTree(CorrelatedTopics):
    """A tree of the topics, by how they go together: average linkage of 1 - correlation.

    Parameters
    ----------
    correlation : ndarray of shape (n_components, n_components)
        Correlations of the topics.
    summary : TopicSummary
        The topics.
    n_words : int, default=4
        Words that label a topic, or a cluster of topics.

    Attributes
    ----------
    linkage : ndarray of shape (n_components - 1, 4)
        The tree, as :func:`scipy.cluster.hierarchy.linkage` returns it.
    share : ndarray of shape (n_components,)
        Shares of all tokens.
    labels : list of str
        The topics' most probable words.
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        Where it was drawn last.

    See Also
    --------
    sklearn_sparsepost.GibbsCTM.topic_tree : Makes it.

    Examples
    --------
    >>> from sklearn_sparsepost import GibbsCTM
    >>> from sklearn_sparsepost.datasets import make_lda_corpus
    >>> X, _, _ = make_lda_corpus(200, 60, 4, random_state=0)
    >>> ctm = GibbsCTM(n_components=4, max_iter=20, random_state=0).fit(X)
    >>> tree = ctm.topic_tree()
    >>> tree.cut(2).shape
    (4,)
    """

    def __init__(self, correlation, summary, n_words=4):
        super().__init__(summary, n_words)
        if len(correlation) < 2:
            raise ValueError("a tree needs two topics at least, and there is 1")
        distance = np.maximum(1 - correlation, 0)
        np.fill_diagonal(distance, 0)
        pairs = squareform(distance, checks=False)
        self.linkage = linkage(pairs, "average", optimal_ordering=True)

    def cut(self, n_clusters):
        """Cut the tree into clusters.

        Parameters
        ----------
        n_clusters : int
            How many, at most as many as topics.

        Returns
        -------
        cluster : ndarray of shape (n_components,)
            Each topic's cluster, numbered in the order in which :meth:`plot` shows them.
        """
        check_count(n_clusters, "n_clusters", 1)
        if n_clusters > len(self.share):
            raise ValueError(f"n_clusters={n_clusters} is more than the {len(self.share)} topics")
        found = cut_tree(self.linkage, n_clusters)[:, 0]
        order = found[leaves_list(self.linkage)]
        _, first = np.unique(order, return_index=True)
        place = np.empty(n_clusters, dtype=np.int64)
        place[order[np.sort(first)]] = np.arange(n_clusters)
        return place[found]

    def cluster_labels(self, n_clusters):
        """List the most probable words of clusters, their topics taken together by use.

        Parameters
        ----------
        n_clusters : int
            How many, as for :meth:`cut`.

        Returns
        -------
        labels : list of str
            One a cluster.
        """
        cluster = self.cut(n_clusters)
        return [self._label(np.flatnonzero(cluster == c)) for c in range(n_clusters)]

    def plot(self, layers=None, ax=None):
        """Draw the topics in a hierarchy of layers (Fig. 4 of the paper).

        Parameters
        ----------
        layers : sequence of int, default=None
            How many clusters the layers above the topics have, coarsest first; by default about
            the cube root of the number of topics, and its square.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : TopicTree
            Itself, drawn: columns from the coarsest clusters to the topics, dots sized by
            how many topics they hold, labelled by their words.
        """
        K = len(self.share)
        if layers is None:
            layers = sorted({max(1, round(K ** (1 / 3))), max(1, round(K ** (2 / 3)))})
        ax = canvas(self, ax, (12, max(3, 0.17 * K)))
        height = np.empty(K)
        height[leaves_list(self.linkage)] = -np.arange(K)
        columns = [(self.cut(n), self.cluster_labels(n)) for n in layers]
        columns.append((np.arange(K), self.labels))
        before = None
        for x, (member, labels) in enumerate(columns):
            y = np.array([height[member == c].mean() for c in range(len(labels))])
            size = np.bincount(member)
            if before is not None:
                for c in range(len(labels)):
                    parent = before[0][np.flatnonzero(member == c)[0]]
                    ax.plot(
                        [x - 0.45, x], [before[1][parent], y[c]], color="0.75", lw=0.8, zorder=1
                    )
            ax.scatter(np.full(len(y), x), y, s=8 + 400 * size / K, color="tab:blue", zorder=2)
            for label, at in zip(labels, y, strict=True):
                ax.text(x + 0.03, at, label, va="center", fontsize=7, zorder=3)
            before = member, y
        ax.set_xlim(-0.1, len(columns) - 0.3)
        ax.set_axis_off()
        return self
