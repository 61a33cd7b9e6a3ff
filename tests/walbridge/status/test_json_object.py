"""The object that programs get: the same fields whoever answers."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.walbridge.status.test_pipeline_status import AWAY, status
from walbridge.status.json_object import as_json


def test_json_has_every_section_whoever_is_away() -> None:
    whole = as_json(status())
    away = as_json(replace(status(), source=AWAY, published=AWAY, lake=AWAY))

    assert whole.keys() == away.keys()
    assert away["kafka"] == {"reachable": False, "reason": "away"}
    assert away["lag"] == {
        "kafka": {"bytes": None, "s": None},
        "lake": {"bytes": None, "s": None},
        "lake_behind_kafka_bytes": None,
        "lake_holds_all_changes": False,
    }
    assert json.loads(json.dumps(whole)) == whole
