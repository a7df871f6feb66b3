/**
 * A vitest reporter for scripts/test.ts: appends one JSON line per finished test to the file
 * TEST_REPORT_FILE, so that results are not lost if vitest dies. For the same reason it prints a failure at
 * once, while vitest prints failures after the whole run.
 */
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { SerializedError } from 'vitest'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'
import { NEEDS } from '@cofferdam/embedded/needs'

export type ReportLine =
  | { type: 'passed' | 'failed'; file: string; name: string }
  /** `reason` is empty when neither a note nor the title gives one. */
  | { type: 'skipped'; file: string; name: string; reason: string }
  /** Something failed outside of a test: a file that does not load, a hook, an unhandled rejection. */
  | { type: 'broken'; file: string; name: string }
  | { type: 'end'; interrupted: boolean }

/** The reason that `needs` wrote into a title. Empty when there is none. */
export function reasonOf(fullName: string): string {
  const [, reason] = fullName.split(NEEDS)
  return reason === undefined ? '' : `needs ${reason.split(' > ')[0]}`
}

/** vitest creates it (`--reporter=scripts/report-tests.ts`), so it must be a class and a default export. */
export default class TestReport implements Reporter {
  readonly #file = process.env['TEST_REPORT_FILE'] ?? ''
  readonly #root = process.cwd()

  onTestCaseResult(test: TestCase): void {
    const result = test.result()
    const place = { file: this.#path(test.module), name: test.fullName }
    const reason = reasonOf(test.fullName)
    if (result.state === 'skipped') this.#add({ type: 'skipped', ...place, reason: result.note ?? reason })
    // vitest gives this state to a test inside two nested skipped suites.
    else if (result.state === 'pending' && reason !== '') this.#add({ type: 'skipped', ...place, reason })
    else this.#add({ type: result.state === 'passed' ? 'passed' : 'failed', ...place })
    if (result.state === 'failed')
      for (const { message, diff = '' } of result.errors)
        console.error(`FAILED ${place.file} > ${place.name}: ${message}\n${diff}`)
  }

  onTestSuiteResult(suite: TestSuite): void {
    if (suite.errors().length > 0)
      this.#add({ type: 'broken', file: this.#path(suite.module), name: suite.fullName })
  }

  onTestModuleEnd(module: TestModule): void {
    if (module.errors().length > 0)
      this.#add({ type: 'broken', file: this.#path(module), name: 'the file failed' })
  }

  onTestRunEnd(
    _modules: readonly TestModule[],
    errors: readonly SerializedError[],
    reason: 'passed' | 'interrupted' | 'failed',
  ): void {
    for (const error of errors) this.#add({ type: 'broken', file: '', name: `unhandled: ${error.message}` })
    this.#add({ type: 'end', interrupted: reason === 'interrupted' })
  }

  #path(module: TestModule): string {
    return relative(this.#root, module.moduleId)
  }

  #add(line: ReportLine): void {
    if (this.#file !== '') appendFileSync(this.#file, JSON.stringify(line) + '\n')
  }
}
