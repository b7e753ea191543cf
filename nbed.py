import json,sys
def edit(p,pairs):
    nb=json.load(open(p))
    for a,b in pairs:
        n=0
        for c in nb['cells']:
            s=''.join(c['source'])
            if a in s: n+=1; c['source']=s.replace(a,b).splitlines(keepends=True)
        print(p[-40:],n,a[:60])
    open(p,'w').write(json.dumps(nb,indent=1,ensure_ascii=False)+'\n')
