"Pre-train a text encoder by replaced-token detection (ELECTRA) on your own text."
import warnings as _warnings

__version__ = "0.1.0"
__all__ = ['pretrain', 'open_run', 'finetune', 'Study', 'predict', 'score', 'evaluate_pairs', 'diagnose', 'plan', 'report', 'survey', 'export', 'pack']
_where = {'pretrain':'pretraining', 'open_run':'lab.reports.opening', 'finetune':'finetuning', 'Study':'lab.study.study', 'diagnose':'lab.reports.doctor',
    'plan':'lab.planning.plan', 'report':'lab.reports.study_pages', 'score':'scoring', 'predict':'predicting', 'evaluate_pairs':'lab.scoring.pairs',
    'survey':'lab.language.survey', 'export':'lab.export.export',
    'pack':'lab.stream.pack'}

# fastai decorates a few activation functions with torch.jit.script, which newer versions of torch announce the end of; nothing here uses them
_warnings.filterwarnings('ignore', message='.*torch.jit.script.* is deprecated')

def _load(module):
    "Import a module of the package and the lab's rows in the tables of the book. What imports make stays: to look for garbage in it, then and later, takes a tenth of the time to the first step."
    import atexit, gc, sys
    from importlib import import_module
    on,first = gc.isenabled(),'torch' not in sys.modules # later a user may have tensors, which should go
    gc.disable()
    try:
        import_module(f'{__name__}.lab.register')
        return import_module(f'{__name__}.{module}')
    finally:
        if first:
            gc.freeze()
            atexit.register(gc.unfreeze) # libraries tell on what is still there at the end
        if on: gc.enable()

def __getattr__(name):
    "Import the public functions when they are first used: importing the package alone costs nothing."
    if name not in _where: raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_load(_where[name]), name)

def __dir__(): return [*globals(), *_where]
