/** Finds the Python of this host's sandboxes, with the folders that it needs. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { z } from 'zod'

const run = promisify(execFile)

export interface Python {
  /** The interpreter itself, not a shim: a pyenv shim costs 100 ms per start. */
  executable: string
  version: string
  /** Folders besides /usr that this Python needs to start. */
  folders: string[]
}

const answerSchema = z.strictObject({
  executable: z.string().min(1),
  folders: z.array(z.string().min(1)),
  version: z.tuple([z.int(), z.int(), z.int()]),
})

const QUESTION = `
import json, os, sys
real = os.path.realpath(sys.executable)
folders = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(real))}
print(json.dumps({'executable': sys.executable, 'version': sys.version_info[:3], 'folders': sorted(folders)}))
`

/** The system's Python first: it is in /usr, which every sandbox shows. */
const CANDIDATES = ['/usr/bin/python3', '/usr/local/bin/python3', 'python3']

/** Python 3.8 or newer: `named` or the first fitting candidate; null if there is none. */
export async function findPython(named: string | undefined, signal: AbortSignal): Promise<Python | null> {
  for (const candidate of named === undefined ? CANDIDATES : [named]) {
    const answer = await run(candidate, ['-I', '-S', '-c', QUESTION], { signal }).catch((error: unknown) => {
      signal.throwIfAborted()
      return { stdout: '', error }
    })
    const parsed = answerSchema.safeParse(jsonOrNull(answer.stdout))
    if (!parsed.success) continue
    const { executable, folders, version } = parsed.data
    const [major, minor] = version
    if (major !== 3 || minor < 8) continue
    return {
      executable,
      version: version.join('.'),
      folders: folders.filter((f) => f !== '/' && f !== '/usr' && !f.startsWith('/usr/')),
    }
  }
  return null
}

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
