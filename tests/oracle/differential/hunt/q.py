"""python q.py 'SQL' …: asks all engines."""
import sys
from reduce import make
from engines import *
d, g, P = make("--big" in sys.argv)
for s in [a for a in sys.argv[1:] if a != "--big"]:
    print("##", s)
    for n, e in [("duck", d), ("pg", g)] + list(P.items()):
        v = e.ask(s); print(f"  {n}: " + (v[:300].replace("\n", " ") if isinstance(v, Failed) else v.show(8, False)))
