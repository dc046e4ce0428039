"""Random metadata and random filters that have a chance to meet."""

from hypothesis import strategies as st

STAMPS = (
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "2023-12-31T23:00:00-01:00",
    "2024-06-30T12:00:00.25+05:30",
    "2024-02-30",
)
NUMBERS = st.sampled_from([0, 1, 2, 3.0, 2.5, -1, -0.0, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 2**63, 2**70, 1e300])
TEXTS = st.sampled_from(["", "a", "b", "a.md", "3", "é", "\U0001f600", "\ud800", *STAMPS])
SCALARS = st.one_of(st.booleans(), NUMBERS, TEXTS)
NAMES = st.sampled_from(["a", "b", "a.b", "b.a"])
JSON = st.recursive(
    st.none() | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(NAMES, JSON, max_size=4)
PATHS = st.sampled_from(["a", "b", "a.b", "b.a", "a.a", "a.b.a", "a.b.b"])


@st.composite
def ranges(draw):
    low, high = draw(
        st.one_of(
            *[st.tuples(kind, kind) for kind in (NUMBERS, st.sampled_from(["", "a", "é"]), st.sampled_from(STAMPS[:4]))]
        )
    )
    ends = {draw(st.sampled_from(["$gt", "$gte"])): low, draw(st.sampled_from(["$lt", "$lte"])): high}
    return {key: ends[key] for key in draw(st.sampled_from([list(ends), list(ends)[:1], list(ends)[1:]]))}


WHERE = st.recursive(
    st.dictionaries(
        PATHS,
        st.one_of(
            SCALARS,
            st.none(),
            st.builds(dict, **{"$in": st.lists(SCALARS, max_size=3)}),
            st.builds(dict, **{"$nin": st.lists(SCALARS, max_size=3)}),
            st.builds(dict, **{"$ne": SCALARS}),
            st.builds(dict, **{"$exists": st.booleans()}),
            ranges(),
        ),
        max_size=2,
    ),
    lambda inner: st.one_of(
        st.builds(dict, **{"$and": st.lists(inner, min_size=1, max_size=2)}),
        st.builds(dict, **{"$or": st.lists(inner, min_size=1, max_size=2)}),
        st.builds(dict, **{"$not": inner}),
    ),
    max_leaves=3,
)
