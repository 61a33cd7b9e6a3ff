"""How long WAL waits, told by samples of how far the server was."""

from walbridge.producer.postgres.slots.wal_samples import SAMPLES_MAX, WalSamples


def sampled(*samples: tuple[float, int]) -> WalSamples:
    made = WalSamples()
    for at_s, lsn in samples:
        made.add(at_s, lsn)
    return made


def test_wal_waits_since_the_first_sample_above_what_is_settled() -> None:
    samples = sampled((10, 100), (15, 100), (20, 200), (25, 300))

    assert samples.age_s(settled=100, now_s=30) == 10


def test_nothing_waits_where_all_that_the_server_had_is_settled() -> None:
    assert sampled((10, 100), (15, 200)).age_s(settled=200, now_s=1000) == 0


def test_age_goes_on_while_the_server_says_nothing_more() -> None:
    samples = sampled((10, 100), (15, 200))

    assert [samples.age_s(100, now_s) for now_s in (15, 100, 4000)] == [0, 85, 3985]


def test_age_stays_right_through_an_outage_of_a_day_in_bounded_memory() -> None:
    """I9: a sample every five seconds."""
    samples, now_s = WalSamples(), 24 * 3600.0
    for number in range(24 * 720):
        samples.add(5.0 * number, 1000 + number)
        samples.forget(1000)

    assert samples.age_s(1000, now_s) == now_s - 5
    assert len(samples._above) <= SAMPLES_MAX
    assert 0 <= now_s - 43_200 - samples.age_s(1000 + 43_200 // 5, now_s) < 3600, "thinned, but in order"


def test_age_begins_anew_behind_what_was_settled_meanwhile() -> None:
    samples = sampled((10, 100), (15, 200), (20, 300))
    samples.forget(200)

    assert samples.age_s(200, 30) == 10
    assert samples.age_s(300, 30) == 0


def test_server_whose_wal_went_back_is_sampled_anew() -> None:
    """A standby that lagged was promoted, or an older backup was restored."""
    samples = sampled((10, 500), (15, 100), (20, 120))

    assert samples.age_s(110, 30) == 10
    assert samples.bytes_per_s == 4


def test_rate_is_that_of_the_last_minutes() -> None:
    assert sampled((0, 0)).bytes_per_s is None
    assert sampled((0, 0), (1000, 50_000), (1010, 51_000)).bytes_per_s == 100
