"What editors and type checkers see; Python imports each name when it is first used, by `__getattr__` in `__init__.py`."
from .finetuning import finetune as finetune
from .opening import open_run as open_run
from .planning import plan as plan
from .pretraining import pretrain as pretrain
from .reports.doctor import diagnose as diagnose
from .reports.study_pages import report as report
from .scoring import score as score
from .study.study import Study as Study
from .zero_shot.pairs import evaluate_pairs as evaluate_pairs

__version__: str
