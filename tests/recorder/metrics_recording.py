"""Records what `/metrics` of a broker says of a subscription in a state, three times, 15 s apart.

As a program it writes a file for each state into a folder, with the command before each answer:

    export PYTHONPATH=.:tests:tests/recorder:tests/recording
    python tests/recorder/metrics_recording.py FOLDER [RELEASE [NAME ...]]
"""

import re
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from urllib.request import urlopen

from churn import TOPIC
from real_broker import NEWEST
from recording_broker import RecordingBroker, recording_broker
from states import STATES, Scene

TIMES, APART_S = 3, 15
_CONSUMERS = "exposeConsumerLevelMetricsInPrometheus"
KEPT = re.compile(
    r"pulsar_(rate_in|in_messages_total|out_messages_total|consumer_(?!msg_throughput|msg_rate_redeliver)\w+"
    r"|subscription_(?!filter|\w*throughput|\w*expire|msg_drop|delayed_message_index|\w*bytes|msg_rate_redeliver)\w+)\{"
)
"""Metrics that say whether messages flow; the others of a subscription make the files twice as long."""
EXPOSED = {"hung-consumer", "paused-consumer"}
"""States whose broker exposes metrics of each consumer, which it does not by default."""


def record(broker: RecordingBroker, into: Path) -> None:
    """Writes the lines of the subscription, and what is published."""
    with into.open("w") as file:
        for number in range(TIMES):
            if number:
                time.sleep(APART_S)
            with urlopen(f"{broker.admin_url}/metrics/", timeout=30) as response:
                lines = response.read().decode().splitlines()
            of_topic = [line for line in lines if f'topic="{TOPIC}' in line and KEPT.match(line)]
            file.write(
                f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ} $ curl -s localhost:8080/metrics/ | grep orders\n"
            )
            file.write("".join(f"{line}\n" for line in of_topic))


def main() -> None:
    folder, release = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else NEWEST
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or STATES:
        state = STATES[name]
        settings = {**state.settings, _CONSUMERS: str(name in EXPOSED).lower()}
        with tempfile.TemporaryDirectory() as made:
            traces = Path(made) / "traces"
            traces.mkdir()
            with recording_broker(traces, release, **settings) as broker:
                scene = Scene(broker)
                state.enter(scene)
                record(broker, folder / f"{name}-{release}.txt")
                broker.process.kill()
                scene.close()
        print(folder / f"{name}-{release}.txt", flush=True)


if __name__ == "__main__":
    main()
