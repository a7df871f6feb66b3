/**
 * `npm run release -- --dry-run`: makes the packages and says what it would publish. Without --dry-run it
 * publishes them with npm, whose login it uses. It refuses a release that CHANGELOG.md calls unreleased,
 * that has no notes, or that would be made from changed files.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { pack, type Packed } from './pack.ts'
import { PUBLISHED } from './published.ts'
import { newestRelease, obstacles } from './release-notes.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

async function main(args: string[]): Promise<number> {
  const isDry = args.includes('--dry-run')
  const unknown = args.filter((arg) => arg !== '--dry-run')
  if (unknown.length > 0) {
    console.error(`npm run release knows only --dry-run, not ${unknown.join(' ')}`)
    return 2
  }
  const release = newestRelease(readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8'))
  const changed = execFileSync('git', ['status', '--porcelain'], { cwd: root, encoding: 'utf8' })
  const problems = obstacles(
    release,
    changed
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.slice(3)),
  )
  if (!isDry && problems.length > 0) {
    for (const problem of problems) console.error(problem)
    return 1
  }
  const packed: Packed[] = []
  for (const published of PUBLISHED)
    packed.push(await pack(root, published, path.join(root, 'dist/packages')))
  for (const one of packed) {
    console.log(`${isDry ? 'would publish' : 'publishing'} ${describe(one)}`)
    if (!isDry)
      execFileSync('npm', ['publish', one.file, '--access', 'public'], { cwd: root, stdio: 'inherit' })
  }
  if (isDry) {
    console.log(`\nNotes of ${release.version}:\n\n${release.notes}`)
    for (const problem of problems) console.log(`\nBefore it can be published: ${problem}`)
  }
  return 0
}

function describe({ name, version, bytes, files, file }: Packed): string {
  const unpacked = files.reduce((total, { size }) => total + size, 0)
  const kib = (size: number): string => `${Math.ceil(size / 1024)} KiB`
  const sizes = `${files.length} files, ${kib(bytes)}, ${kib(unpacked)} unpacked`
  return `${name}@${version}: ${sizes} (${path.relative(root, file)})`
}

process.exitCode = await main(process.argv.slice(2))
