import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MAX_LIMITS } from '@cofferdam/contract'
import { expect, it } from 'vitest'

const SCRIPT = new URL('read-changes.py', import.meta.url).pathname

/** Runs the script in `folder`, whose memories are below `notes`. None of them is known. */
function changesIn(folder: string): { answer: string; files: Record<string, string>; more: boolean } {
  const input = JSON.stringify({ folders: { notes: {} } })
  const answer = execFileSync('python3', ['-I', SCRIPT], {
    cwd: folder,
    input,
    maxBuffer: 1 << 26,
  }).toString()
  const { folders, more } = JSON.parse(answer)
  return { answer, files: folders.notes.changed, more }
}

it.each([
  ['of ASCII', 'a', 'x'.repeat(250_000), 30],
  ['whose characters are six bytes in JSON', 'ä', '\u4e2d'.repeat(80_000), 20],
])(
  'changed texts %s fit into an output, and the rest is reported as left out',
  (_what, name, text, count) => {
    const folder = mkdtempSync(join(tmpdir(), 'read-changes-'))
    try {
      mkdirSync(join(folder, 'notes'))
      for (let n = 0; n < count; n += 1) writeFileSync(join(folder, 'notes', `${name}${n}.md`), text)
      const { answer, files, more } = changesIn(folder)
      expect(answer.length).toBeLessThan(MAX_LIMITS.stdout_bytes)
      expect(more).toBe(true)
      expect(Object.keys(files).length).toBeGreaterThan(3)
      for (const found of Object.values(files)) expect(found === text).toBe(true)
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
)
