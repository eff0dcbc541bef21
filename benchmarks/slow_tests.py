"""Run the tests that are too slow for every change, and keep their log as a results file."""

import subprocess
import sys

from results_file import write_results


def main() -> None:
    command = [sys.executable, "-m", "pytest", "-m", "long", "-vv", "--durations=5"]
    ended = subprocess.run(command, capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    print("\n".join(lines[-12:]))
    tests = [line for line in lines if "::" in line and ("PASSED" in line or "FAILED" in line)]
    figures = {"exit_code": ended.returncode, "tests": tests, "summary": lines[-8:]}
    write_results("slow-tests", figures)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
