// A reporter of mocha that prints like `spec` and writes one JSON line when a test ends, so that a stopped
// run leaves a report. The reader accepts 8 MiB: 500 messages of 4 KiB, and all names and places.
const { openSync, writeSync } = require('node:fs')
const { createRequire } = require('node:module')
const { dirname, join } = require('node:path')

const MESSAGE_MAX = 4096
const MESSAGES = 500
const { Spec } = createRequire(join(process.cwd(), 'package.json'))('mocha').reporters

module.exports = class Report extends Spec {
  constructor(runner, options) {
    super(runner, options)
    const out = openSync(join(dirname(__filename), 'report.jsonl'), 'w')
    const line = (fields) => writeSync(out, `${JSON.stringify(fields)}\n`)
    let messages = 0
    const test = (test, status, error) => {
      const message = error === undefined || (messages += 1) > MESSAGES ? '' : textOf(error)
      const file = fileOf(test) ?? null
      const name = test.fullTitle().slice(0, 1024)
      line({ t: 'test', name, status, file, line: lineOf(error, file), ms: test.duration ?? null, message })
    }
    runner.on('pass', (passed) => test(passed, 'passed'))
    runner.on('pending', (pending) => test(pending, 'skipped'))
    runner.on('fail', (failed, error) => test(failed, failed.type === 'hook' ? 'errored' : 'failed', error))
    runner.on('end', () => line({ t: 'end' }))
  }
}

function textOf(error) {
  return String(error?.stack ?? error?.message ?? error).slice(0, MESSAGE_MAX)
}

function fileOf(test) {
  return test.file ?? (test.parent === undefined ? undefined : fileOf(test.parent))
}

function lineOf(error, file) {
  if (file === null) return null
  for (const frame of String(error?.stack ?? '').split('\n')) {
    const found = /(?:\(|at )(?:file:\/\/)?([^()]+?):(\d+):\d+\)?$/.exec(frame.trim())
    // mocha's filter of stacks makes paths relative.
    if (found !== null && (found[1] === file || file.endsWith(`/${found[1]}`))) return Number(found[2])
  }
  return null
}
