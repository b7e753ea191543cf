"Programs of tests, each a fork of one process that has imported the libraries, so that none waits for imports. How a fresh process begins (what it imports, prints and takes from its environment) needs one of its own."
import atexit, gc, json, os, signal, subprocess, sys, tempfile, time, types
from pathlib import Path

libraries = 'datasets joblib matplotlib.pyplot pandas scipy.stats sklearn.metrics torch.distributed transformers.models.electra.modeling_electra'.split()
own = 'lab.register lab.reports.doctor lab.reports.study_pages lab.speed.processes commands finetuning predicting scoring'.split()

def write(path, text):
    "Write a file that is there whole or not at all."
    Path(f'{path}.new').write_text(text)
    os.rename(f'{path}.new', path)

def serve():
    "For each line of the standard input fork a process that looks after a fork of its own; return the code in that one."
    signal.signal(signal.SIGCHLD, signal.SIG_IGN) # nobody waits for the first
    for line in sys.stdin:
        job = json.loads(line)
        if os.fork(): continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pid = os.fork()
        if not pid: return begin(**job)
        write(f"{job['home']}/pid", str(pid))
        write(f"{job['home']}/code", str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        os._exit(0)
    os._exit(0)

def begin(home, code, argv, cwd, env, stdin):
    "Be the program that was asked for, but for the imports."
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd,name in enumerate((stdin,f'{home}/out',f'{home}/err')): os.dup2(os.open(name, os.O_RDWR|os.O_CREAT|os.O_APPEND), fd)
    sys.stdin = open(0, closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ['-c',*argv]
    return code

class Program:
    "A running program; used as a `subprocess.Popen` whose two outputs are kept."
    server = None
    def __init__(self, code, cwd, env, argv=(), stdin=os.devnull):
        if Program.server is None: Program.start_server()
        self.home,self.returncode = Path(tempfile.mkdtemp(dir=Program.folder.name)),None
        job = dict(home=str(self.home), code=code, argv=argv, cwd=str(cwd), env=env, stdin=str(stdin))
        Program.server.stdin.write(json.dumps(job)+'\n')
        Program.server.stdin.flush()
        while not (self.home/'pid').exists():
            assert Program.server.poll() is None, 'the process that forks has ended'
            time.sleep(.005)
        self.pid = int((self.home/'pid').read_text())

    @staticmethod
    def start_server():
        Program.folder = tempfile.TemporaryDirectory()
        env = {**os.environ, 'HF_HOME':f'{Program.folder.name}/hf', 'HF_HUB_OFFLINE':'1', 'CUDA_VISIBLE_DEVICES':'', 'OMP_NUM_THREADS':'1'}
        Program.server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=env, text=True)
        atexit.register(Program.end_server)

    @staticmethod
    def end_server():
        Program.server.stdin.close()
        Program.server.wait()
        Program.folder.cleanup()

    def poll(self):
        if self.returncode is None and (self.home/'code').exists(): self.returncode = int((self.home/'code').read_text())
        return self.returncode

    def wait(self, timeout=300):
        end = time.time()+timeout
        while self.poll() is None:
            if time.time()>end:
                self.kill()
                raise TimeoutError(f'the program has not ended in {timeout} s')
            time.sleep(.02)
        return self.returncode

    def communicate(self, timeout=300):
        self.wait(timeout)
        return self.said('out'),self.said('err')

    def said(self, name):
        "What has been written so far to an output, 'out' or 'err'."
        return (self.home/name).read_text() if (self.home/name).exists() else ''

    def send_signal(self, sig):
        if self.poll() is None: os.kill(self.pid, sig)

    def kill(self): self.send_signal(signal.SIGKILL)

if __name__=='__main__':
    import importlib
    from quick import draw
    for name in (*libraries,*(f'electra_nb.{m}' for m in own)): importlib.import_module(name)
    draw(False)
    gc.freeze() # or each fork copies all objects as soon as it looks for garbage
    atexit.register(gc.unfreeze) # libraries tell on what is still there at the end
    code = serve()
    sys.modules['__main__'] = main = types.ModuleType('__main__')
    try: exec(compile(code, '<string>', 'exec'), vars(main))
    except KeyboardInterrupt: # what a shell makes of a program that ends by it
        sys.excepthook(*sys.exc_info())
        sys.exit(130)
