/**
 * Tells whether an entry of a list means this command. An entry is a name (`rm`), a path (`/usr/bin/git`), or
 * either with the first words of the command (`git push`).
 */
import { posix } from 'node:path'
import type { Argument } from './constant-word.ts'

/** Folders in which a plain name of an allow list also matches a full path. */
const SYSTEM_FOLDERS = new Set([
  '/bin',
  '/sbin',
  '/usr/bin',
  '/usr/sbin',
  '/usr/local/bin',
  '/usr/local/sbin',
])

/** `unclear`: one of the words that the entry names is not constant. */
export type Match = 'yes' | 'no' | 'unclear'

/** A name (`rm`) matches every path with that file name. A path (`/bin/rm`) also matches the bare name. */
export function matchesBlock(argv: readonly Argument[], entry: string): Match {
  const [name = '', ...words] = partsOf(entry)
  const asked = argv[0] ?? ''
  const isSame = name.includes('/')
    ? asked.includes('/')
      ? posix.normalize(asked) === posix.normalize(name)
      : asked === posix.basename(name)
    : posix.basename(asked) === name
  return isSame ? matchesWords(argv, words) : 'no'
}

/** A name (`rm`) matches itself, bare or in a system folder. A path (`/bin/rm`) matches only that path. */
export function matchesAllow(argv: readonly Argument[], entry: string): boolean {
  const [name = '', ...words] = partsOf(entry)
  const asked = argv[0] ?? ''
  const path = posix.normalize(asked)
  const isSame = name.includes('/')
    ? asked.includes('/') && path === posix.normalize(name)
    : asked === name || (SYSTEM_FOLDERS.has(posix.dirname(path)) && posix.basename(path) === name)
  return isSame && matchesWords(argv, words) === 'yes'
}

const partsOf = (entry: string): string[] => entry.trim().split(/\s+/)

function matchesWords(argv: readonly Argument[], words: readonly string[]): Match {
  for (const [index, word] of words.entries()) {
    const asked = argv[index + 1]
    if (asked === null) return 'unclear'
    if (asked !== word) return 'no'
  }
  return 'yes'
}
