"""What loading the device adds to `import torch`, in processor time and memory, over several processes.

python bench/load.py             # exit status 1 when the best is over 50 ms or the median over 30 MB
"""

import os
import statistics
import subprocess
import sys

N_PROCESSES = 9
MOST_SECONDS, MOST_MEGABYTES = 0.050, 30
CODE = """
import resource, time
import torch._C
from torch_pjrt import _loader
before, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_loader.load()
print(time.process_time() - before, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024)
"""


def main() -> int:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-c", CODE]
    samples = []
    for _ in range(N_PROCESSES):
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        samples.append(tuple(map(float, output.split())))
    seconds, megabytes = zip(*samples, strict=True)
    least, memory = min(seconds), statistics.median(megabytes)
    print(
        f"loading the device: {least * 1e3:.1f} ms at best, {statistics.median(seconds) * 1e3:.1f} ms in the median of"
    )
    print(f"{N_PROCESSES} processes (processor time; {MOST_SECONDS * 1e3:.0f} ms allowed), {memory:.1f} MB")
    return int(least > MOST_SECONDS or memory > MOST_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
