/** The suite's programs in the language of the `fake` backend, which has no processes and no network. */
import type { Program } from '@cofferdam/contract'
import { fakeSource, type FakeStep } from '../src/fake/index.ts'
import type { Programs } from './programs.ts'

const script = (...steps: FakeStep[]): Program => ({
  type: 'script',
  language: 'python',
  source: fakeSource(...steps),
})

export const fakePrograms: Programs = {
  hello: (language, text) => ({ type: 'script', language, source: fakeSource({ print: text }) }),
  exit: (code) => script({ exit: code }),
  fail: (message) => script({ throw: message }),
  write: (parts) =>
    script(...parts.map(([stream, text]) => (stream === 'stdout' ? { stdout: text } : { stderr: text }))),
  flood: (bytes) => script({ repeat: { text: 'x', times: bytes } }),
  binary: (bytes) => script({ stdout_base64: Buffer.from(bytes).toString('base64') }),
  echoStdin: () => script({ echo_stdin: true }),
  cat: (path) => script({ cat: path }),
  writeFile: (path, content) => script({ write_file: { path, content } }),
  environment: () => script({ print_all_env: true }),
  printThenWait: (text) => script({ print: text }, { sleep_ms: 600_000 }),
  handleInterrupt: (text, code) =>
    script({ print: 'ready' }, { spin_until_interrupt: true }, { print: text }, { exit: code }),
  ignoreInterrupts: () =>
    script({ ignore_interrupts: true }, { print: 'ready' }, { spin_until_interrupt: true }),
  value: (value) => script({ value: value as never }),
  killSelf: (signal) => script({ crash: signal }),
  sleep: (ms) => script({ sleep_ms: ms }),
}
