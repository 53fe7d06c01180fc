import sys
from engines import *
from reduce import make
d,g,P=make(True)
for s in sys.argv[1:]:
    print("##",s)
    ex=d.ask(s); print("  duck", ex[:100] if isinstance(ex,Failed) else ex.rows[:2])
    for p in P.values():
        v=p.ask(s); print("  ",p.name, v[:250] if isinstance(v,Failed) else v.rows[:2])
