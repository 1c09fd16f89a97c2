import pytest

from fathom import FathomError
from fathom.seq2seq import buckets
from fathom.seq2seq.buckets import Bucket


def test_the_papers_buckets_are_read():
    assert buckets.parse("5-10 10-15") == (Bucket(5, 10), Bucket(10, 15))


@pytest.mark.parametrize(
    "text", ["", "5", "5-x", "5-10-15", "10-15 5-10", "0-3", "5-5 5-6", "-5-4"]
)
def test_buckets_that_make_no_sense_are_refused(text):
    with pytest.raises(FathomError, match="buckets must be"):
        buckets.parse(text)


def test_a_source_is_decoded_as_its_smallest_bucket_or_the_largest():
    sizes = (Bucket(2, 3), Bucket(4, 5))
    assert [buckets.bucket_of_source(length, sizes).target for length in (2, 3, 9)] == [3, 5, 5]
