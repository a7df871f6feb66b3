/**
 * Starts an unsandboxed Python interpreter on this host, the baseline of the bench's `vs_bare_python` ratios.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Finds the interpreter itself: version managers wrap it in a shell script that costs 100 ms. */
export async function realPython(): Promise<string> {
  const candidate = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'
  const { stdout } = await run(candidate, ['-c', 'import sys; print(sys.executable)'])
  return stdout.trim()
}

/** Starts `python3 -I -c source` and waits for its end. Throws when it fails. */
export const barePython = (python: string, source: string) => async (): Promise<void> => {
  await run(python, ['-I', '-c', source])
}
