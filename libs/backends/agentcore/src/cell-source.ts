/**
 * The code that a session runs before anything of a user: our modules and the cell. It is Python for the
 * session's own interpreter. Data in it is base64, apart from the nonce and the marker, which need no
 * escaping. So no text of ours or a user's is read as code.
 */
import { readFileSync } from 'node:fs'
import { guestFiles } from '@cofferdam/sandbox/guest'

const CELL = new URL('cell/', import.meta.url)
const OWN = ['__init__', 'capture', 'cell', 'child', 'kept', 'live', 'redact', 'run', 'script'] as const
/** Modules of the guest agent, which follow no symbolic link when they read or write files. */
const SHARED = ['glob', 'walk', 'workdir'] as const

/** Version of the cell, our program in a session. Its ready line names the version. */
const VERSION = 1

let sources: Record<string, string> | null = null

function modules(): Record<string, string> {
  if (sources !== null) return sources
  const shared = guestFiles().flatMap(({ name, source }) => {
    const module = SHARED.find((one) => name === `cofferdam_agent/${one}.py`)
    return module === undefined ? [] : [[`${module}.py`, readFileSync(source, 'utf8')] as const]
  })
  const own = OWN.map((name) => [`${name}.py`, readFileSync(new URL(`${name}.py`, CELL), 'utf8')] as const)
  return (sources = Object.fromEntries([...own, ...shared]))
}

/** The last line that a ready session prints. */
export const readyMarker = (nonce: string): string => `__sandbox_ready__ v${VERSION} ${nonce}`

/** Writes our modules into `.cofferdam-<nonce>`, imports them, installs the redactor, prints the marker. */
export function preamble(nonce: string): string {
  return `
import base64, json, os, sys
def __cofferdam_ready__():
    base = os.path.join(os.getcwd(), ${python(folderOf(nonce))})
    lib = os.path.join(base, "lib")
    os.makedirs(os.path.join(lib, "cofferdam_cell"), 0o700)
    for name, text in json.loads(base64.b64decode("${encoded(modules())}")).items():
        with open(os.path.join(lib, "cofferdam_cell", name), "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, lib)
    try:
        from cofferdam_cell import cell
    finally:
        sys.path.remove(lib)
    cell.ready(base, ${python(readyMarker(nonce))})
__cofferdam_ready__()
`
}

/**
 * The folder of our modules, below the folder in which the session's Python starts. The file tools resolve
 * their paths against that start folder too.
 */
const folderOf = (nonce: string): string => `.cofferdam-${nonce}`

/** A request as Python code for the session's interpreter (executeCode). */
export const cellCode = (request: object): string =>
  `__import__("sys").modules["cofferdam_cell.cell"].answer("${encoded(request)}")`

/** A request as a command with its own interpreter and a time limit. `base` needs no quotes. */
export function cellCommand(
  base: string,
  request: object,
  limits: { softS: number; graceS: number },
): string {
  return [
    `timeout -k ${limits.graceS} ${limits.softS} python3 -I ${base}/lib/cofferdam_cell/run.py ${base} <<'END'`,
    encoded(request),
    'END',
  ].join('\n')
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64')

/** A Python string literal of text that has only letters, digits and a few signs. */
const python = (text: string): string => JSON.stringify(text)
