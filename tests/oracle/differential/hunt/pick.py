import json,sys,re
skip = r"pelton_subqueries|BinaryView|outside WHERE and ON a row|Multiple recursive|DISTINCT, ORDER BY expressions|Order by index|Order by column|start bound|IS NOT DISTINCT FROM|Unary operator|Max is 0.99|OuterReferenceColumn|type of column"
seen={}; out=[]
for i,l in enumerate(open(sys.argv[1])):
    r=json.loads(l); e=r.get('error','')
    if re.search(skip,e) or r.get('found','').startswith('type'): continue
    n=re.sub(r"[0-9]+|\"[^\"]*\"|'[^']*'|\b[a-z]\w*\.\w+", "#", e.split("\n")[0])[:60] if e else r['kind']
    seen[n]=seen.get(n,0)+1
    if e and seen[n]>3: continue
    if not e and ('IGNORE NULLS' in r['sql'] or r['sql'].count('agg(DISTINCT')>1): continue
    out.append(str(i))
print(' '.join(out))
