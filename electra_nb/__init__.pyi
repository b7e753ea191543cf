"What editors and type checkers see; Python imports each name when it is first used, by `__getattr__` in `__init__.py`."
from .finetuning import finetune as finetune
from .lab.export.export import export as export
from .predicting import predict as predict
from .lab.reports.opening import open_run as open_run
from .lab.planning.plan import plan as plan
from .pretraining import pretrain as pretrain
from .lab.reports.doctor import diagnose as diagnose
from .lab.reports.study_pages import report as report
from .scoring import score as score
from .lab.language.survey import survey as survey
from .lab.stream.pack import pack as pack
from .lab.study.study import Study as Study
from .lab.scoring.pairs import evaluate_pairs as evaluate_pairs

__version__: str
