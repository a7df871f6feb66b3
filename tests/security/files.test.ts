/** Files that a program shapes so that a reader outside follows them, hangs or runs out of memory. */
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { memoryOf, peakMemoryOf, resetPeakMemory } from './host.ts'
import { onTargets, program } from './on-targets.ts'
import { bash, isCold, python, type Target } from './target.ts'

const MiB = 1024 * 1024
const CONTENT = 'canary-5d21f07a'

function placeVictim(target: Target): string {
  const folder = join(target.runtimeDir, 'victim')
  if (!existsSync(folder)) mkdirSync(folder)
  const victim = join(folder, 'private.txt')
  writeFileSync(victim, CONTENT)
  const { uid, gid } = statSync(target.runtimeDir)
  for (const path of [folder, victim]) chownSync(path, uid, gid)
  return victim
}

/** Everything in the blob store, read from the host's file system. */
const stored = (target: Target): { path: string; isFile: boolean; text: string }[] =>
  readdirSync(target.blobDir, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const isFile = lstatSync(path).isFile()
      return { path, isFile, text: isFile ? readFileSync(path, 'latin1') : '' }
    })

await onTargets(
  (target) => {
    test('only regular files of the work directory become artifacts, whatever their names', async () => {
      const victim = placeVictim(target)
      // If the directory is on the host, the disk watch ends a program with a path that is too long to look
      // at. So the program stays until then.
      const isWatched = target.section['namespaces'] === false
      const argv = isWatched ? [victim, 'stay'] : [victim]
      const { outcome, ms } = await target.run({
        program: { ...program('artifact_traps'), argv } as ReturnType<typeof program>,
        artifacts: ['**'],
      })
      expect(outcome.ending).toBe(isWatched ? 'disk_limit' : 'ok')
      // A file that could not be made that large is empty.
      const paths = outcome.artifacts.flatMap(({ path, size }) =>
        path === 'sparse.txt' && size === 0 ? [] : [path],
      )
      expect(paths).toEqual(
        expect.arrayContaining(['good.txt', 'sub/deep.txt', 'line\nbreak.txt', 'back\\slash.txt']),
      )
      for (const trap of [
        'shadow',
        'passwd',
        'victim',
        'zero',
        'loop',
        'agent',
        'self',
        'fifo',
        'socket',
        'sparse',
        'hard',
      ])
        expect(paths.filter((path) => path.startsWith(trap))).toEqual([])
      expect(paths.filter((path) => /dir\/|looped\/|\.\.|^\//.test(path))).toEqual([])
      expect(ms).toBeLessThan(30_000)
      for (const blob of stored(target)) {
        expect(blob.isFile, blob.path).toBe(true)
        expect(blob.text).not.toContain(CONTENT)
        expect(blob.text).not.toMatch(/root:[x*!]/)
      }
      expect(readFileSync(victim, 'utf8')).toBe(CONTENT)
    })

    test('a hundred thousand files cost the worker little, and the first ones are kept', async () => {
      resetPeakMemory(target.pid)
      const before = memoryOf(target.pid)
      const { outcome, ms, stdout } = await target.run({
        program: program('many_files'),
        artifacts: ['**/*.txt'],
      })
      // If the directory is a folder of the host, names count towards the disk limit, which ends the program.
      if (outcome.ending !== 'disk_limit') expect(Number(stdout)).toBeGreaterThan(1000)
      expect(outcome.artifacts.length).toBeLessThanOrEqual(256)
      expect(peakMemoryOf(target.pid) - before).toBeLessThan(128 * MiB)
      expect(ms).toBeLessThan(45_000)
    })

    test('files that are too large, alone or together, are left out with a notice', async () => {
      resetPeakMemory(target.pid)
      const before = memoryOf(target.pid)
      const { outcome, notices } = await target.run({
        program: python(
          'for n, size in enumerate([9, 7, 7, 7]): open("f%d.bin" % n, "wb").write(b"x" * (size << 20))',
        ),
        artifacts: ['*.bin'],
      })
      expect(outcome.artifacts.map(({ path }) => path)).toEqual(['f1.bin', 'f2.bin'])
      expect(outcome.artifactsOmitted).toEqual([
        { path: 'f0.bin', size: 9 * MiB, reason: 'too_large' },
        { path: 'f3.bin', size: 7 * MiB, reason: 'total_too_large' },
      ])
      expect(notices.length).toBe(2)
      expect(peakMemoryOf(target.pid) - before).toBeLessThan(128 * MiB)
    })

    test('a link in place of the moved work directory is not followed', async () => {
      const victim = placeVictim(target)
      const { outcome } = await target.run({
        program: bash(
          `echo mine > own.txt; here=$PWD; cd ..; mv "$here" moved 2>/dev/null && ln -s "$(dirname ${victim})" "$here"; true`,
        ),
        artifacts: ['*.txt'],
      })
      expect(outcome.artifacts.map(({ path }) => path).filter((path) => path !== 'own.txt')).toEqual([])
      for (const blob of stored(target)) expect(blob.text).not.toContain(CONTENT)
    })

    test('input files may have any allowed name, and are never written elsewhere', async () => {
      const { stdout } = await target.run({
        program: bash(
          'cat "a b/ü$(printf "\\n")x/-rf" 2>/dev/null; find . -type f -print0 | tr -cd "\\0" | wc -c; ls -a ..',
        ),
        files: [
          { path: 'main.sh/x', content: 'taken' },
          { path: '-rf', content: 'dash' },
          { path: '$(id)', content: 'shell' },
          { path: 'a\nb', content: 'newline' },
        ],
      })
      expect(stdout).toMatch(/^5\n/)
    })
  },
  { where: isCold, daily: ({ name }) => ['docker', 'bwrap as root'].includes(name) },
)
