"""Slow and obvious numpy versions of what the kernels do."""

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp, psi
from scipy.stats import chisquare


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


def log_prior_of_points(log_phi, prior):
    """Log density of Dirichlet priors in the basis of log-probabilities, K x V."""
    normaliser = gammaln(prior.sum(axis=1)) - gammaln(prior).sum(axis=1)
    return normaliser.sum() + (prior * log_phi).sum()


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


# ---------------------------------------------------------------------------- mixtures


def weighted_moments(X, resp):
    """Counts, means and scatter matrices around them, by a loop over components."""
    count = resp.sum(axis=0)
    means = np.stack([(resp[:, k] @ X) / count[k] for k in range(resp.shape[1])])
    scatter = np.stack(
        [
            sum(r * np.outer(x - m, x - m) for r, x in zip(resp[:, k], X, strict=True))
            for k, m in enumerate(means)
        ]
    )
    return count, means, scatter


def normal_wishart(X, resp, prior):
    """(beta, m, nu, W^-1) of every component (Bishop 10.60 - 10.63); prior is such a tuple."""
    beta0, m0, nu0, scale0 = prior
    posterior = []
    for n, average, scatter in zip(*weighted_moments(X, resp), strict=True):
        gap = average - m0
        scale = scale0 + scatter + beta0 * n / (beta0 + n) * np.outer(gap, gap)
        posterior.append((beta0 + n, (beta0 * m0 + n * average) / (beta0 + n), nu0 + n, scale))
    return posterior


def expected_log_normal(X, posterior):
    """E[log N(x | mu, Lambda^-1)] of every row and component (Bishop 10.64, 10.65)."""
    D = X.shape[1]
    columns = []
    for beta, m, nu, scale in posterior:
        W = np.linalg.inv(scale)
        log_det = psi((nu - np.arange(D)) / 2).sum() + D * np.log(2) + np.linalg.slogdet(W)[1]
        quadratic = np.array([D / beta + nu * (x - m) @ W @ (x - m) for x in X])
        columns.append(0.5 * (log_det - D * np.log(2 * np.pi) - quadratic))
    return np.stack(columns, axis=1)


def log_student(x, location, scale, df):
    """Log density of a multivariate Student t."""
    D = len(x)
    gap = x - location
    quadratic = gap @ np.linalg.solve(scale, gap)
    return (
        gammaln((df + D) / 2)
        - gammaln(df / 2)
        - 0.5 * (D * np.log(df * np.pi) + np.linalg.slogdet(scale)[1])
        - (df + D) / 2 * np.log1p(quadratic / df)
    )


def log_marginal_normal(X, prior):
    """log p(X) of one Gaussian under a Normal-Wishart prior: predictives, row after row."""
    total = 0.0
    for i, x in enumerate(X):
        seen = (X[:i], np.ones((i, 1)))
        beta, m, nu, scale = normal_wishart(*seen, prior)[0] if i else prior
        df = nu - X.shape[1] + 1
        total += log_student(x, m, scale * (beta + 1) / (beta * df), df)
    return total


def log_mixture_evidence(X, alpha, prior):
    """log p(X) of a Gaussian mixture by enumeration of all assignments: a few rows only."""
    K = len(alpha)
    terms = []
    for z in itertools.product(range(K), repeat=len(X)):
        z = np.array(z)
        count = np.bincount(z, minlength=K)
        value = gammaln(alpha.sum()) - gammaln(alpha.sum() + len(X))
        value += (gammaln(alpha + count) - gammaln(alpha)).sum()
        value += sum(log_marginal_normal(X[z == k], prior) for k in range(K) if count[k])
        terms.append(value)
    return logsumexp(terms)


def agrees(seen, weights):
    """Whether draws fall into cells by their weights, by a chi-squared test."""
    expected = weights / weights.sum() * seen.sum()
    # The rarest cells together make one.
    cell = np.where(expected > 5, np.arange(len(seen)), np.argmin(expected))
    used = np.unique(cell)
    seen, expected = (np.bincount(cell, x)[used] for x in (seen, expected))
    return chisquare(seen, expected).pvalue > 1e-3
