/**
 * A program's surroundings: one table for all backends, so that a program for one backend runs on all. A
 * backend without its own file tree, or with a vendor's, must satisfy only the agent's rows.
 */
import { SURROUNDINGS } from '@cofferdam/contract'
import { beforeAll, expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/** Output of `programs.surroundings`. */
export interface Surroundings {
  host_name: string
  /** Addresses of the names; null if a name does not resolve. */
  localhost: string | null
  own_name: string | null
  /** What a client of http://localhost got from a server in the same program. */
  fetched: string
  open_files: [soft: number, hard: number]
  /**
   * How many of 100 threads ran at once. The process limit counts threads too. Real processes would cost
   * gVisor 0.15 s and 10 MiB each.
   */
  threads: number
  encoding: string
  /** The locale of LANG, as setlocale(3) names it; null if not installed. */
  locale: string | null
  zone: string
  home: string
  temporary: string
  work: string
  /** Whether a file could be created in each folder. */
  writable: Record<string, boolean>
  /** Content of a work directory's file when read below /mnt/data. */
  data: string
  /** Content, read below `.session` in the work directory, of files that were written through /mnt. */
  linked: string[]
  shm_bytes: number
}

type Row = [what: string, check: (found: Surroundings) => void]

const OF_THE_AGENT: Row[] = [
  [
    '4,096 open files',
    ({ open_files: files }) => expect(files).toEqual(Array(2).fill(SURROUNDINGS.openFiles)),
  ],
  ['100 threads beside each other', ({ threads }) => expect(threads).toBe(100)],
  ['text in UTF-8', ({ encoding }) => expect(encoding).toBe('utf-8')],
  ['the time in UTC', ({ zone }) => expect(zone).toBe('UTC')],
  [
    'folders to write for HOME and temporary files',
    ({ home, temporary, writable }) =>
      expect({ home: writable[home], temporary: writable[temporary] }).toEqual({
        home: true,
        temporary: true,
      }),
  ],
]

const OF_THE_TREE: Row[] = [
  ['its host name', ({ host_name: name }) => expect(name).toBe(SURROUNDINGS.hostName)],
  ['localhost', ({ localhost }) => expect(localhost).toBe('127.0.0.1')],
  ['an address for its own name', ({ own_name: name }) => expect(name).toMatch(/^127\./)],
  ['its own server at http://localhost', ({ fetched }) => expect(fetched).toBe('served')],
  [
    'its folders where they are everywhere',
    ({ home, temporary, work }) =>
      expect({ home, temporary, work }).toEqual({
        home: '/tmp',
        temporary: '/tmp',
        work: SURROUNDINGS.workFolder,
      }),
  ],
  [
    'folders to write at /tmp, /var/tmp and /mnt/data',
    ({ writable }) => expect(writable).toEqual({ '/tmp': true, '/var/tmp': true, '/mnt/data': true }),
  ],
  ['the work directory as /mnt/data', ({ data }) => expect(data).toBe('of the work directory')],
  [
    "folders for an agent's outputs and memory at /mnt/session/outputs and /mnt/memory",
    ({ linked }) => expect(linked).toEqual(['/mnt/session/outputs/given', '/mnt/memory/given']),
  ],
  ['the locale that LANG names', ({ locale }) => expect(locale).toMatch(/^C\.UTF-?8$/i)],
  ['16 MiB of shared memory', ({ shm_bytes: bytes }) => expect(bytes).toBe(SURROUNDINGS.shmBytes)],
]

export function surroundings(h: Harness): void {
  const { programs } = h
  const { surroundings: held = 'all' } = h.options
  if (programs.surroundings === undefined || held === 'none') return
  const program = programs.surroundings()
  let found: Surroundings
  beforeAll(async () => {
    const { exit, stdout, stderr } = await h.once(program)
    expect({ ...exit, stderr: stderr.toString() }).toMatchObject({ exitCode: 0, stderr: '' })
    found = JSON.parse(stdout.toString()) as Surroundings
  })

  test.each(held === 'all' ? [...OF_THE_AGENT, ...OF_THE_TREE] : OF_THE_AGENT)(
    'gives a program %s',
    (_what, check) => check(found),
  )
}
