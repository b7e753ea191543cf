"Write what the commands say into electra_nb/help.json, from which `--help` shows it at once: `python docs/help.py`, after an option has changed."
import json
from electra_nb.commands import current_help, help_file

help_file.write_text(json.dumps(current_help(), indent=1, ensure_ascii=False)+'\n', encoding='utf-8')
