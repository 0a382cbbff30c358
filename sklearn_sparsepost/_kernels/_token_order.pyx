"""Tokens in the orders that samplers take them in, by counting instead of sorting.

* `count_tokens`: tokens of documents and of words;
* `lay_out`: the words of documents' tokens, words in an order of their own;
* `order_by_word`: where the tokens of each word are.
"""
from libc.stdlib cimport calloc, free, malloc

ctypedef fused index_t:
    int
    long long


def count_tokens(
    const index_t[::1] indptr,  # IN
    const index_t[::1] indices,  # IN
    const unsigned int[::1] counts,  # IN
    long long[::1] length,  # OUT
    long long[::1] size,  # IN/OUT
):
    """Count the tokens of documents, and add them to those of words.

    Parameters
    ----------
    indptr, indices, counts : ndarrays
        Counts: CSR of shape (n_documents, n_features).
    length : ndarray of shape (n_documents,), int64
        Tokens of each document, set.
    size : ndarray of shape (n_features,), int64
        Tokens of each word, added to.
    """
    cdef Py_ssize_t d, i
    cdef long long total
    with nogil:
        for d in range(length.shape[0]):
            total = 0
            for i in range(indptr[d], indptr[d + 1]):
                total += counts[i]
                size[indices[i]] += counts[i]
            length[d] = total


def lay_out(
    const index_t[::1] indptr,  # IN
    const index_t[::1] indices,  # IN
    const unsigned int[::1] counts,  # IN
    const int[::1] rank,  # IN
    const long long[::1] in_groups,  # IN
    const long long[::1] ends,  # IN
    long long[:, ::1] ptr,  # IN/OUT
    int[::1] word,  # OUT
):
    """Set the words of documents' tokens, group of words after group, each by rank.

    Parameters
    ----------
    indptr, indices, counts : ndarrays
        Counts: CSR of shape (n_documents, n_features), each word once a document.
    rank : ndarray of shape (n_features,), int32
        The place of each word among those of all groups.
    in_groups : ndarray of shape (n_features,), int64
        The words by rank.
    ends : ndarray of shape (n_groups,), int64
        Where each group ends among these.
    ptr : ndarray of shape (n_documents, n_groups + 1), int64
        Where a document's tokens of each group begin, and where they end: the first is given, from
        that of the first document on; the others are set.
    word : ndarray of shape (n_tokens,), int32
        The words, set.
    """
    cdef Py_ssize_t n_documents = ptr.shape[0], n_features = rank.shape[0], d, i, j, g, r = 0
    cdef long long c
    cdef Py_ssize_t n_entries = indptr[n_documents] - indptr[0] if n_documents else 0
    # Where the entries of each rank begin, then their documents and counts.
    cdef long long *begin = <long long *>calloc(n_features + 2, sizeof(long long))
    cdef int *document = <int *>malloc(max(n_entries, 1) * sizeof(int))
    cdef int *count = <int *>malloc(max(n_entries, 1) * sizeof(int))
    cdef long long *at = <long long *>malloc(max(n_documents, 1) * sizeof(long long))
    if begin == NULL or document == NULL or count == NULL or at == NULL:
        free(begin)
        free(document)
        free(count)
        free(at)
        raise MemoryError("no memory for the order of a corpus")
    with nogil:
        # Two places late, so that each begins where it should once it was gone through.
        for i in range(n_entries):
            begin[rank[indices[i]] + 2] += 1
        for j in range(n_features):
            begin[j + 2] += begin[j + 1]
        for d in range(n_documents):
            at[d] = ptr[d, 0] - ptr[0, 0]
            for i in range(indptr[d], indptr[d + 1]):
                j = rank[indices[i]] + 1
                document[begin[j]] = <int>d
                count[begin[j]] = <int>counts[i]
                begin[j] += 1
        for g in range(ends.shape[0]):
            while r < ends[g]:
                for i in range(begin[r], begin[r + 1]):
                    j = at[document[i]]
                    for c in range(count[i]):
                        word[j + c] = <int>in_groups[r]
                    at[document[i]] += count[i]
                r += 1
            for d in range(n_documents):
                ptr[d, g + 1] = ptr[0, 0] + at[d]
    free(begin)
    free(document)
    free(count)
    free(at)


def order_by_word(
    const int[::1] word,  # IN
    const long long[::1] doc_ptr,  # IN
    const int[::1] rank,  # IN
    int[::1] place,  # OUT
    int[::1] document,  # OUT
    long long[::1] begin,  # OUT
):
    """Say where the tokens of each word are, documents in their order.

    Parameters
    ----------
    word : ndarray of shape (n_tokens,), int32
        The words of documents' tokens.
    doc_ptr : ndarray of shape (n_documents + 1,), int64
        Where each document's tokens begin, from 0 on.
    rank : ndarray of shape (n_features,), int32
        The words' order.
    place, document : ndarray of shape (n_tokens,), int32
        Where each token is, and its document, set.
    begin : ndarray of shape (n_features + 2,), int64
        Zeros; where the tokens of each word begin, by rank, and, at the last place but one, where
        they end, is set.
    """
    cdef Py_ssize_t d, i, j, n_tokens = word.shape[0]
    with nogil:
        # Two places late, so that each begins where it should once it was gone through.
        for i in range(n_tokens):
            begin[rank[word[i]] + 2] += 1
        for j in range(rank.shape[0]):
            begin[j + 2] += begin[j + 1]
        for d in range(doc_ptr.shape[0] - 1):
            for i in range(doc_ptr[d], doc_ptr[d + 1]):
                j = rank[word[i]] + 1
                place[begin[j]] = <int>i
                document[begin[j]] = <int>d
                begin[j] += 1
