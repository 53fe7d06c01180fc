"""A failing case, made smaller for as long as it fails in the same way."""

# Each step runs the case on both engines: enough for what the generator makes.
ATTEMPTS_MAX = 300


def shrink(case, still_fails):
    """The smallest of the cases that `simpler` leads to and `still_fails` holds for, by greedy descent."""
    attempts = 0
    progress = True
    while progress:
        progress = False
        for candidate in sorted(case.simpler(), key=lambda candidate: len(candidate.pelton())):
            attempts += 1
            if attempts > ATTEMPTS_MAX:
                return case
            if len(candidate.pelton()) < len(case.pelton()) and still_fails(candidate):
                case, progress = candidate, True
                break
    return case
