"""Slow and obvious numpy versions of what the kernels do."""

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp, psi


def topl(log_weight, L):
    """L-sparse responsibilities of one row: sort, cut, exponentiate, normalise (Alg. 1)."""
    K = len(log_weight)
    L = min(L, K)
    order = sorted(range(K), key=lambda k: (-log_weight[k], k))[:L]
    kept = np.sort(order)
    w = log_weight[kept]
    resp = np.full(L, 1 / L) if np.isneginf(w).all() else np.exp(w - logsumexp(w))
    return kept, resp


def expected_log_topics(components):
    """E[log phi_kv] under Dirichlet(components_k)."""
    return psi(components) - psi(components.sum(axis=1, keepdims=True))


def responsibilities(log_weight, L):
    """L-sparse responsibilities of every row, as a dense table."""
    resp = np.zeros_like(log_weight)
    for row, out in zip(log_weight, resp, strict=True):
        kept, out_kept = topl(row, L)
        out[kept] = out_kept
    return resp


def document_bound(words, counts, resp, elog_phi, alpha):
    """A document's terms of the bound, C.4, theta at its optimum, every term written out."""
    mass = counts @ resp
    theta = alpha + mass
    elog_pi = psi(theta) - psi(theta.sum())

    def log_cumulant(a):
        return gammaln(a.sum()) - gammaln(a).sum()

    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -(counts[:, None] * np.where(resp > 0, resp * np.log(resp), 0)).sum()
    data = (counts[:, None] * resp * elog_phi[:, words].T).sum()
    alloc = log_cumulant(alpha) - log_cumulant(theta) + ((mass + alpha - theta) * elog_pi).sum()
    return data + entropy + alloc


def topics_bound(components, prior):
    """E[log p(phi) - log q(phi)], every term written out."""
    elog_phi = expected_log_topics(components)
    total = 0.0
    for lam, eta, e in zip(components, prior, elog_phi, strict=True):
        total += gammaln(eta.sum()) - gammaln(eta).sum() + ((eta - 1) * e).sum()
        total -= gammaln(lam.sum()) - gammaln(lam).sum() + ((lam - 1) * e).sum()
    return total


def log_evidence(X, alpha, eta):
    """log p(X) of LDA by enumeration of all assignments of all tokens: tiny corpora only."""
    K = len(alpha)
    documents = [np.repeat(np.arange(X.shape[1]), row) for row in X]
    tokens = np.concatenate(documents)
    owner = np.repeat(np.arange(len(documents)), [len(d) for d in documents])
    terms = []
    for z in itertools.product(range(K), repeat=len(tokens)):
        z = np.array(z)
        value = 0.0
        for d in range(len(documents)):
            n = np.bincount(z[owner == d], minlength=K)
            value += gammaln(alpha.sum()) - gammaln(alpha.sum() + n.sum())
            value += (gammaln(alpha + n) - gammaln(alpha)).sum()
        for k in range(K):
            m = np.bincount(tokens[z == k], minlength=X.shape[1])
            value += gammaln(eta[k].sum()) - gammaln(eta[k].sum() + m.sum())
            value += (gammaln(eta[k] + m) - gammaln(eta[k])).sum()
        terms.append(value)
    return logsumexp(terms)
