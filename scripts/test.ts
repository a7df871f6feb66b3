/**
 * `npm test`: lists the parts of this machine, runs every test that can run on it, and lists the skipped
 * tests with the reasons. The last line is always `N passed, N failed, N skipped`. Arguments go to vitest:
 * `npm test -- libs/queue -t fair`. `npm run test:long` (`--long`) does the same for the second tier, whose
 * tests take too long for every change.
 *
 * TEST_PARTS=none skips the search for parts and every test that needs one. .ci/run sets it when it hides the
 * parts. COFFERDAM_REQUIRE=all turns a missing part and a skipped test into a failure (exit 1).
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findParts, missingForAll, noParts, partsForTests, partsTable, type Part } from './machine-parts.ts'
import { tally, type Tally } from './tally.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Runs vitest to its end. Resolves with its exit status (128 + n after a signal). */
function runVitest(args: string[], env: Record<string, string>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const child = spawn(
    process.execPath,
    [
      join(root, 'node_modules/vitest/vitest.mjs'),
      'run',
      '--root',
      root,
      '--reporter=default',
      `--reporter=${join(root, 'scripts/report-tests.ts')}`,
      ...args,
    ],
    { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } },
  )
  // The terminal also sends a Ctrl-C to vitest. This process stays, to count the results and clean up.
  const ignore = () => undefined
  const pass = () => child.kill('SIGTERM')
  process.on('SIGINT', ignore).on('SIGTERM', pass)
  child.on('error', reject)
  child.on('exit', (status, signal) => {
    process.off('SIGINT', ignore).off('SIGTERM', pass)
    resolve(status ?? (signal === 'SIGINT' ? 130 : 143))
  })
  return promise
}

function printSkips(sum: Tally): void {
  if (sum.skipped === 0) return
  console.log(`\nSkipped, by reason:`)
  const groups = [...sum.skips].toSorted((a, b) => b[1].length - a[1].length)
  for (const [reason, names] of groups) {
    console.log(`  ${reason}: ${names.length}`)
    for (const name of names.slice(0, 3)) console.log(`      ${name}`)
    if (names.length > 3) console.log(`      … and ${names.length - 3} more`)
  }
}

/** The reasons why COFFERDAM_REQUIRE=all fails the run. */
function unmet(parts: readonly Part[], sum: Tally): string[] {
  const missing = parts
    .filter((part) => !part.ok && !part.optional)
    .map((part) => `${part.name} is missing: ${part.found}`)
  return sum.skipped > 0 ? [...missing, `${sum.skipped} tests were skipped (listed above)`] : missing
}

async function lookAtThisMachine(isLong: boolean): Promise<Part[]> {
  console.log('looking at this machine; the first run builds the sandbox image, which takes a minute …')
  const parts = await findParts({ root, buildsImage: true, fetchesCompose: isLong })
  console.log(partsTable(parts) + '\n')
  return parts
}

async function main(words: string[]): Promise<number> {
  const isLong = words.includes('--long')
  const args = [isLong ? '--project=long*' : '--project=!long*', ...words.filter((word) => word !== '--long')]
  const parts = process.env['TEST_PARTS'] === 'none' ? noParts() : await lookAtThisMachine(isLong)
  for (const { name, fix } of missingForAll(parts)) console.log(`No test can run without ${name}: ${fix}`)
  if (missingForAll(parts).length > 0) return 1

  const reportDir = await mkdtemp(join(tmpdir(), 'cofferdam-report-'))
  try {
    const reportFile = join(reportDir, 'report.ndjson')
    const status = await runVitest(args, {
      TEST_REPORT_FILE: reportFile,
      TEST_PARTS: JSON.stringify(partsForTests(parts)),
    })
    const sum = tally(existsSync(reportFile) ? await readFile(reportFile, 'utf8') : '')
    printSkips(sum)
    if (sum.failed > 0) console.log(`\nFailed:\n${sum.failures.map((name) => `  ${name}`).join('\n')}`)
    const objections = process.env['COFFERDAM_REQUIRE'] === 'all' ? unmet(parts, sum) : []
    for (const objection of objections) console.log(`\nCOFFERDAM_REQUIRE=all: ${objection}`)
    console.log(`\n${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`)
    if (status > 128) return status
    return status !== 0 || sum.failed > 0 || objections.length > 0 ? 1 : 0
  } finally {
    await rm(reportDir, { recursive: true, force: true })
  }
}

process.exitCode = await main(process.argv.slice(2))
