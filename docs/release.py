"Make a version: `python docs/release.py 0.2.0` sets it, builds, commits and tags; nothing is sent. `git push --follow-tags` publishes: the public CI checks the tag, and uploads it."
import re, subprocess, sys
from fastcore.script import call_parse
from packaging.version import InvalidVersion, Version
from pathlib import Path

root = Path(__file__).parent.parent
places = {'settings.ini':r'^version = (.*)$', 'CITATION.cff':r'^version: (.*)$', 'electra_nb/__init__.py':r'^__version__ = "(.*)"$'} # files that say the version

def run(*args): return subprocess.run(args, cwd=root, check=True, capture_output=True, text=True).stdout.strip()

def stated() -> dict: # file -> version
    "The version that each file says; an error if one of them says none."
    found = {f:re.search(line, (root/f).read_text(), re.M) for f,line in places.items()}
    if missing := [f for f,m in found.items() if not m]: sys.exit(f'no version found in {missing}')
    return {f:m[1] for f,m in found.items()}

def set_version(
    versions:dict, # file -> version
) -> None:
    "Write a version into each of the files."
    for f,new in versions.items():
        text = (root/f).read_text()
        start,end = re.search(places[f], text, re.M).span(1)
        (root/f).write_text(text[:start]+new+text[end:])

def changes(
    version:str, # its section of CHANGELOG.md
) -> str: # empty: there is none
    "What is new in a version."
    found = re.search(rf'^## {re.escape(version)}\n(.*?)(?=^## |\Z)', (root/'CHANGELOG.md').read_text(), re.M|re.S)
    return found[1].strip() if found else ''

def refusal(
    version:str, # that is wanted
) -> str: # empty: it can be made
    "Why this version cannot be made here and now."
    try: new = Version(version)
    except InvalidVersion: return f'{version!r} is no version: write it as 0.2.0'
    if new<(old := max(map(Version, stated().values()))): return f'{version} is older than {old}, which settings.ini has'
    if run('git','status','--porcelain'): return 'there are changes that are not committed: commit or stash them'
    if run('git','tag','--list',f'v{version}'): return f'the tag v{version} exists: take another version'
    return '' if changes(version) else f"CHANGELOG.md has no section '## {version}', or nothing in it: write what is new"

def build() -> list: # files
    "Source distribution and wheel in dist/, checked as PyPI checks them."
    for old in (root/'dist').glob('*'): old.unlink()
    run(sys.executable,'-m','build','--no-isolation','-o','dist')
    files = sorted(f'dist/{f.name}' for f in (root/'dist').iterdir())
    run(sys.executable,'-m','twine','check','--strict',*files)
    return files

@call_parse
def main(
    version:str, # such as 0.2.0, or 0.2.0rc1
    only_build:bool=False, # the files say this version already: build the packages, and nothing else
):
    "Set a version, build the packages in dist/, commit, and tag it as `v…` with the section of CHANGELOG.md as the message."
    before = stated()
    if only_build and {*before.values()}!={version}: sys.exit(f'No packages: {version} is wanted, but the files say {before}.')
    if not only_build:
        if why := refusal(version): sys.exit(f'No release: {why}.')
        set_version(dict.fromkeys(places, version))
    try: files = build()
    except subprocess.CalledProcessError as e:
        set_version(before)
        sys.exit(f"{' '.join(e.cmd[1:4])} failed, and nothing is changed:\n{(e.stdout+e.stderr)[-2000:]}")
    print(*files, sep='\n')
    if only_build: return
    if run('git','status','--porcelain'): run('git','commit','-qam',f'Version {version}')
    run('git','tag','-a',f'v{version}','-m',f'Version {version}','-m',changes(version),'--cleanup=whitespace')
    print(f'v{version} is tagged here. To publish: git push --follow-tags')
