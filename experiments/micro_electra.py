# All of ELECTRA in plain Python: one model changes words, the other finds them.
import random
from collections import Counter
from math import erf, exp, log, pi, sqrt
from operator import add, mul

town = '''The old harbour lies between two hills.
In the morning the boats come back with fish and the market opens.
The fisher sells fish at the market.
The baker sells bread at the market.
The children buy bread and eat it on the wall.
When the wind comes from the north, the boats stay in the harbour.

The river runs through the town to the sea.
A stone bridge crosses the river near the market.
In spring the river is high and fast.
In summer the river is low and slow, and the children walk through the water.
The miller needs the river, because the water turns the wheel.'''

random.seed(1)

def words(text):
    "Words and marks, in lower case."
    return ''.join(c if c.isalnum() else f' {c} ' for c in text.lower()).split()

def learn_pieces(text, size):
    "Begin with letters; join the commonest pair of neighbours until there are enough."
    spelled = [[w[0], *('##'+letter for letter in w[1:])] for w in words(text)]
    vocab = ['[UNK]','[CLS]','[SEP]','[MASK]', *sorted({p for s in spelled for p in s})]
    while len(vocab)<size:
        pairs = Counter(pair for s in spelled for pair in zip(s, s[1:]))
        left,right = max(pairs, key=pairs.get)
        vocab.append(left+right.removeprefix('##'))
        for s in spelled:
            for i in range(len(s)-1, 0, -1):
                if (s[i-1],s[i])==(left,right): s[i-1:i+1] = [vocab[-1]]
    return vocab

def cut(word, mark=''):
    "The longest piece that begins the word, then the pieces of the rest."
    if not word: return []
    for end in range(len(word), 0, -1):
        if mark+word[:end] in vocab: return [mark+word[:end],*cut(word[end:], '##')]
    return ['[UNK]']

vocab = learn_pieces(town, 150)
UNK,CLS,SEP,MASK = range(4)
def encode(text): return [vocab.index(piece) for word in words(text) for piece in cut(word)]
def show(ids): print(*(vocab[i] for i in ids))

show(encode('In summer the market opens.'))

def make_row(lines, length):
    "Token ids, and for each token its segment: 0 or 1."
    room = (length-3)//2 if random.random()>=.1 else length
    a,b = lines[0],[]
    for line in lines[1:]:
        border = not b and len(a)<room and random.random()<.5
        if len(a)+len(line)<room or border: a = a+line
        else: b = b+line
    a = [CLS,*a[:length-2],SEP]
    b = [*b[:length-len(a)-1],SEP] if b and len(a)<length-1 else []
    return a+b,[0]*len(a)+[1]*len(b)

def pack(document, length):
    lines = []
    for line in document:
        lines.append(line)
        if sum(map(len, lines))>=length or line is document[-1]:
            yield make_row(lines, length)
            lines = []

documents = [[encode(line) for line in d.split('\n')] for d in town.split('\n\n')]
row = list(pack(documents[0], length=24))[1]
show(row[0])

def mask(ids):
    "The row with holes, and the places that the generator must predict."
    ordinary = [i for i,token in enumerate(ids) if token not in (CLS,SEP)]
    places = random.sample(ordinary, max(1, int(.155*len(ids))))
    hidden = [i for i in places if random.random()<.85]
    return [MASK if i in hidden else token for i,token in enumerate(ids)],places

show(mask(row[0])[0])

class Matrix:
    "Rows of numbers, and for each number the gradient of the loss."
    def __init__(self, rows): self.rows,self.grad = rows,[[0.]*len(row) for row in rows]

tape = []
def backward():
    while tape: tape.pop()()

def dot(a, b): return sum(map(mul, a, b))
def product(a, b): return [[sum(map(mul, row, other)) for other in b] for row in a]
def turn(rows): return list(zip(*rows))
def times(a, b): return product(a, turn(b))
def add_to(total, more):
    for row,new in zip(total, more): row[:] = map(add, row, new)

def pick(m, numbers):
    y = Matrix([m.rows[i] for i in numbers])
    @tape.append
    def back(): add_to([m.grad[i] for i in numbers], y.grad)
    return y

def plus(a, b):
    y = Matrix([list(map(add, *pair)) for pair in zip(a.rows, b.rows)])
    @tape.append
    def back():
        for m in (a,b): add_to(m.grad, y.grad)
    return y

def linear(x, w, b):
    y = Matrix([list(map(add, row, b.rows[0])) for row in product(x.rows, w.rows)])
    @tape.append
    def back():
        add_to(x.grad, times(y.grad, w.rows))
        add_to(w.grad, times(turn(y.grad), x.rows))
        add_to(b.grad, [map(sum, turn(y.grad))])
    return y

def gelu(x):
    phi = [[(1+erf(v/sqrt(2)))/2 for v in row] for row in x.rows]
    y = Matrix([list(map(mul, *pair)) for pair in zip(x.rows, phi)])
    @tape.append
    def back():
        for row,shares,dx,dy in zip(x.rows, phi, x.grad, y.grad):
            slope = [p+v*exp(-v*v/2)/sqrt(2*pi) for v,p in zip(row, shares)]
            add_to([dx], [map(mul, slope, dy)])
    return y

def layer_norm(x, gain, shift):
    normed,scales = [],[]
    for row in x.rows:
        mean = sum(row)/len(row)
        centred = [v-mean for v in row]
        scales.append((dot(centred, centred)/len(row)+1e-12)**-.5)
        normed.append([v*scales[-1] for v in centred])
    y = Matrix([list(map(add, map(mul, n, gain.rows[0]), shift.rows[0])) for n in normed])
    @tape.append
    def back():
        for n,scale,dx,dy in zip(normed, scales, x.grad, y.grad):
            d = list(map(mul, dy, gain.rows[0]))
            mean,along = sum(d)/len(d),dot(d, n)/len(d)
            add_to([dx], [[scale*(u-mean-v*along) for u,v in zip(d, n)]])
            add_to(gain.grad, [map(mul, dy, n)])
        add_to(shift.grad, [map(sum, turn(y.grad))])
    return y

def softmax(row):
    top = max(row)
    powers = [exp(v-top) for v in row]
    total = sum(powers)
    return [p/total for p in powers]

def head(q, k, v, y, at):
    q_rows,k_rows,v_rows = ([row[at] for row in m.rows] for m in (q,k,v))
    scale = len(k_rows[0])**-.5
    shares = [softmax([s*scale for s in row]) for row in product(q_rows, k_rows)]
    for row,mean in zip(y.rows, times(shares, v_rows)): row[at] = mean
    @tape.append
    def back():
        g = [row[at] for row in y.grad]
        pairs = zip(shares, product(g, v_rows))
        d = [[p*(u-dot(ps, us))*scale for p,u in zip(ps, us)] for ps,us in pairs]
        grads = times(d, k_rows),times(turn(d), q_rows),times(turn(shares), g)
        for m,new in zip((q,k,v), grads):
            for row,more in zip(m.grad, new): row[at] = map(add, row[at], more)

def attend(q, k, v, n_heads):
    y,width = Matrix([[0.]*len(row) for row in q.rows]),len(q.rows[0])//n_heads
    for h in range(n_heads): head(q, k, v, y, slice(h*width, (h+1)*width))
    return y

weights = []
def learned(rows, shrinks):
    weights.append((Matrix(rows), shrinks))
    return weights[-1][0]

def noise(n, width, size):
    rows = [[random.gauss(0, size) for _ in range(width)] for _ in range(n)]
    return learned(rows, True)

def constant(width, value=0.): return learned([[value]*width], False)
def dense(n_in, n_out): return noise(n_out, n_in, (2*n_in)**-.5),constant(n_out)
def norm(width): return constant(width, 1.),constant(width)

def new_layer(d):
    p = {name:dense(d, d) for name in ('query','key','value','mix')}
    return dict(p, wide=dense(d, 4*d), narrow=dense(4*d, d), norm=norm(d), end=norm(d))

def layer(x, p, n_heads=2):
    q,k,v = (linear(x, *p[name]) for name in ('query','key','value'))
    mixed = linear(attend(q, k, v, n_heads), *p['mix'])
    x = layer_norm(plus(x, mixed), *p['norm'])
    wide = gelu(linear(x, *p['wide']))
    return layer_norm(plus(x, linear(wide, *p['narrow'])), *p['end'])

D,G,LENGTH = 16,8,24
table = dict(word=noise(len(vocab), D, .1), place=noise(LENGTH, D, .1), norm=norm(D))
table['segment'] = noise(2, D, .1)
gen = dict(narrow=dense(D, G), layers=[new_layer(G)], head=dense(G, D), norm=norm(D))
gen['bias'] = constant(len(vocab))
disc = dict(layers=[new_layer(D)], head=dense(D, D), verdict=dense(D, 1))

def encoder(tower, ids, segments):
    x = plus(pick(table['word'], ids), pick(table['place'], range(len(ids))))
    x = layer_norm(plus(x, pick(table['segment'], segments)), *table['norm'])
    if 'narrow' in tower: x = linear(x, *tower['narrow'])
    for p in tower['layers']: x = layer(x, p)
    return x

def generator(masked, segments, places):
    x = pick(encoder(gen, masked, segments), places)
    x = layer_norm(gelu(linear(x, *gen['head'])), *gen['norm'])
    return linear(x, table['word'], gen['bias'])

def discriminator(ids, segments):
    x = gelu(linear(encoder(disc, ids, segments), *disc['head']))
    return linear(x, *disc['verdict'])

def guess_loss(logits, truth, weight):
    chances = [softmax(row) for row in logits.rows]
    @tape.append
    def back():
        for g,row,t in zip(logits.grad, chances, truth):
            g[:] = [weight*p for p in row]
            g[t] -= weight
    return -weight*sum(log(row[t]) for row,t in zip(chances, truth))

def sigmoid(v): return 1/(1+exp(-v))

def verdict_loss(logits, replaced, weight):
    chances = [sigmoid(row[0]) for row in logits.rows]
    @tape.append
    def back():
        for g,p,r in zip(logits.grad, chances, replaced): g[0] = weight*(p-r)
    return -weight*sum(log(p if r else 1-p) for p,r in zip(chances, replaced))

def draw(logits): return random.choices(range(len(logits)), softmax(logits))[0]

def losses(batch):
    "Of the generator, of the discriminator, and the share of replaced tokens."
    masks = [mask(ids) for ids,_ in batch]
    n_places,n_tokens = sum(len(p) for _,p in masks),sum(len(ids) for ids,_ in batch)
    gen_loss = disc_loss = n_replaced = 0
    for (ids,segments),(masked,places) in zip(batch, masks):
        logits = generator(masked, segments, places)
        gen_loss += guess_loss(logits, [ids[i] for i in places], 1/n_places)
        corrupted = list(ids)
        for i,row in zip(places, logits.rows): corrupted[i] = draw(row)
        replaced = [new!=old for new,old in zip(corrupted, ids)]
        disc_loss += verdict_loss(discriminator(corrupted, segments), replaced, 50/n_tokens)
        n_replaced += sum(replaced)
    return gen_loss,disc_loss,n_replaced/n_tokens

means = [[([0.]*len(row),[0.]*len(row)) for row in w.rows] for w,_ in weights]

def adam(lr):
    length = sqrt(sum(dot(g, g) for w,_ in weights for g in w.grad))
    for (w,shrinks),rows in zip(weights, means):
        for row,grad,(mean,square) in zip(w.rows, w.grad, rows):
            g = [v/max(1, length) for v in grad]
            mean[:] = [.9*m+.1*v for m,v in zip(mean, g)]
            square[:] = [.99*s+.01*v*v for s,v in zip(square, g)]
            steps = [m/(sqrt(s)+1e-6) for m,s in zip(mean, square)]
            row[:] = [v-lr*(step+.01*shrinks*v) for v,step in zip(row, steps)]
            grad[:] = [0.]*len(grad)

def floor(p): return -50*(p*log(p)+(1-p)*log(1-p))

def train(n_steps, lr=.008):
    history = []
    for step in range(1, n_steps+1):
        starts = [(d,random.randrange(len(d))) for d in random.choices(documents, k=3)]
        history.append(losses([next(pack(d[i:], LENGTH)) for d,i in starts]))
        backward()
        adam(lr*min(1, 10*step/n_steps)*(1-step/n_steps))
        if step%50: continue
        gen_loss,disc_loss,share = (sum(column)/50 for column in zip(*history[-50:]))
        print(f'{step}: {gen_loss:.2f} and {disc_loss:.2f}, floor {floor(share):.2f}')
    return history

history = train(500)

def suspicion(text):
    "The probability of every token that it was replaced."
    ids = [CLS,*encode(text),SEP]
    verdicts = discriminator(ids, [0]*len(ids))
    tape.clear()
    return [(vocab[i],sigmoid(row[0])) for i,row in zip(ids, verdicts.rows)]

for token,p in suspicion('The fisher sells river at the market.'):
    print(f'{token:>8} {p:4.0%}', '#'*round(40*p))
