"Install electra_nb; everything is read from settings.ini."
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup, find_packages

ini = ConfigParser(delimiters=['='])
ini.read('settings.ini', encoding='utf-8')
cfg = ini['DEFAULT']

setup(
    name=cfg['lib_name'],
    version=cfg['version'],
    description=cfg['description'],
    long_description=Path('README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    author=cfg['author'],
    url=cfg['git_url'],
    license='Apache-2.0',
    keywords=cfg['keywords'],
    packages=find_packages(include=['electra_nb', 'electra_nb.*']),
    package_data={'electra_nb': ['py.typed', '*.pyi', 'help.json', 'lab/reports/templates/*', 'lab/export/web/*']},
    python_requires='>=' + cfg['min_python'],
    install_requires=cfg['requirements'].split(),
    extras_require={'dev': cfg['dev_requirements'].split(), **{t: [t] for k in ('trackers','other_extras') for t in cfg[k].split()}},
    entry_points={'console_scripts': cfg['console_scripts'].split(), 'nbdev': ['electra_nb=electra_nb._modidx:d']},
    zip_safe=False)
