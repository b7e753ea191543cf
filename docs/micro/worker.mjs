// Runs the lines of micro_electra.py as they stand in the page. Around `losses` and `adam` something looks on: it draws no random number and
// changes no weight, so the training is the one that Python makes elsewhere.
import {loadPyodide} from './runtime/pyodide.mjs'

const watch = fetch(new URL('./watch.py', import.meta.url)).then(r => r.text())
onmessage = async ({data}) => {
  try {
    const python = await loadPyodide({indexURL:new URL('./runtime/', import.meta.url).href})
    python.runPython(await watch)
    postMessage(JSON.stringify({kind:'ready'}))
    python.globals.get('run')(data.code, data.sentence, text => postMessage(text))
    postMessage(JSON.stringify({kind:'done'}))
  } catch (e) { postMessage(JSON.stringify({kind:'error', text:String(e.message ?? e)})) }
}
