/**
 * What a program finds around itself, one table for all backends: what runs on one of them runs on the
 * others. Who has no file tree of its own, or a vendor's, is held to the rows that the agent alone decides.
 */
import { SURROUNDINGS } from '@cofferdam/contract'
import { beforeAll, expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

/** What `programs.surroundings` prints. */
export interface Surroundings {
  host_name: string
  /** Addresses that the names resolve to; null for what does not. */
  localhost: string | null
  own_name: string | null
  /** What a client of http://localhost got from a server of the same program. */
  fetched: string
  open_files: [soft: number, hard: number]
  /**
   * How many ran at once, of 100: the limit of processes counts threads. Each process would cost gVisor 0.15
   * s and 10 MiB.
   */
  threads: number
  encoding: string
  /** The one that LANG names, as setlocale(3) calls it; null where it is not installed. */
  locale: string | null
  zone: string
  home: string
  temporary: string
  work: string
  /** Whether a file could be made there. */
  writable: Record<string, boolean>
  /** What a file of the work directory reads as below /mnt/data. */
  data: string
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
