import { expect, test } from 'vitest'
import { createCellSession } from './cell-session.ts'
import type { ToolResult } from './consume-stream.ts'
import type { DataPlane } from './data-plane.ts'

/** A session whose machine answers every command with this stdout, or fails every command with this error. */
const saying = (stdout: string | Error) =>
  createCellSession(
    {
      call: async () => {
        if (stdout instanceof Error) throw stdout
        return { stdout, stderr: '', exitCode: 0, isError: false } as ToolResult
      },
    } as unknown as DataPlane,
    { interpreter: 'i', session: 's' },
    '/base',
  )

test.each([
  ['it grew since the program began', '3\n5', 2],
  ['it is what it was', '3\r\n3', 0],
  ['the program took the count away', '5', 0],
  ['the machine says something else', 'cat: no such file', 0],
  ['nobody answers', new Error('gone'), 0],
])(
  'a session reports the kernel’s count of out-of-memory kills if the count is plausible: %s',
  async (_words, said, kills) => {
    expect(await saying(said).oomKills(new AbortController().signal)).toBe(kills)
  },
)
