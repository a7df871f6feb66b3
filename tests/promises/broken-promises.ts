/**
 * Ten promises. Each names one line of the product that keeps it, a way to break the line, and the tests of
 * `npm test` that must then fail. If you move such a line, update its entry.
 */
export interface BrokenPromise {
  promise: string
  file: string
  /** Occurs exactly once in the file. */
  line: string
  broken: string
  /** Paths for vitest. */
  tests: readonly string[]
}

export const BROKEN_PROMISES: readonly BrokenPromise[] = [
  {
    promise: 'a program is dead at its hard deadline',
    file: 'libs/executor/src/deadlines.ts',
    line: 'clock.after(options.hardTimeoutMs, hardDeadline)',
    broken: 'clock.after(options.hardTimeoutMs * 100, hardDeadline)',
    tests: ['libs/executor/src/execute.test.ts'],
  },
  {
    promise: 'a cap is never passed',
    file: 'libs/admission/lua/admit.lua',
    line: "if usedDay >= capDay then return denied('tenant_daily', dayEnd, 0) end",
    broken: "if usedDay > capDay then return denied('tenant_daily', dayEnd, 0) end",
    tests: ['libs/admission/test/admit.test.ts'],
  },
  {
    promise: 'what our side failed to start is not charged',
    file: 'libs/admission/lua/refund.lua',
    line: 'lower(KEYS[2], day)',
    broken: '-- lower(KEYS[2], day)',
    tests: ['libs/admission/test/admit.test.ts'],
  },
  {
    promise: 'a worker that lost its execution cannot end it',
    file: 'libs/queue/src/lua/settle.lua',
    line: "if x[2] ~= ARGV[2] then return { 'fenced' } end",
    broken: '',
    tests: ['libs/queue/test/redelivery.test.ts'],
  },
  {
    promise: 'secrets do not leave a sandbox',
    file: 'libs/executor/src/redactor.ts',
    line: 'parts.push(bytes.subarray(cleanFrom, at), MARKER)',
    broken: 'parts.push(bytes.subarray(cleanFrom, end), MARKER)',
    tests: ['libs/executor/src/redactor.test.ts'],
  },
  {
    promise: 'a sandbox reaches no private address',
    file: 'libs/egress/src/judge-address.ts',
    line: 'if (!isGlobal) return WORDS[range]',
    broken: 'if (!isGlobal && range === "reserved") return WORDS[range]',
    tests: ['libs/egress/src/judge-address.test.ts', 'libs/egress/test/ssrf.test.ts'],
  },
  {
    promise: 'a session keeps nothing but its files',
    file: 'libs/sandbox/agent/cofferdam_agent/cell.py',
    line: 'if root.path != self.work or keep == "none":',
    broken: 'if root.path == self.work and keep == "none":',
    tests: ['libs/sandbox/test/guest/cell.test.ts'],
  },
  {
    promise: 'an audit row says how a program ended',
    file: 'libs/store/src/attempt-columns.ts',
    line: "exit_code: 'int'",
    broken: "exit_code: 'bool'",
    tests: ['libs/store/test/record.test.ts', 'libs/store/test/reading.test.ts'],
  },
  {
    promise: 'a container gains no privileges',
    file: 'libs/sandbox/src/docker/container-options.ts',
    line: "SecurityOpt: ['no-new-privileges', SECCOMP]",
    broken: 'SecurityOpt: [SECCOMP]',
    tests: ['libs/sandbox/src/docker/container-options.test.ts'],
  },
  {
    promise: 'an execution goes to the worker that has the sandbox of its session',
    file: 'libs/queue/src/lua/include/session.lua',
    line: 'if slots == 0 or not serves(kind, need) then return false end',
    broken: 'if slots >= 0 then return false end',
    tests: ['libs/queue/test/session.test.ts'],
  },
]
