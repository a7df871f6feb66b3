/** Programs that print what two clones of one template must not have in common. */
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  type Backend,
  type Language,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import { expect } from 'vitest'

export const OF_PYTHON = `
import json, os, random, secrets, subprocess, time, uuid
shell = subprocess.run(['sh', '-c', 'od -An -tx1 -N16 /dev/urandom'], capture_output=True, text=True)
print(json.dumps({
  'urandom': os.urandom(16).hex(), 'file': open('/dev/random', 'rb').read(16).hex(), 'shell': shell.stdout,
  'random': random.random(), 'secrets': secrets.token_hex(16), 'uuid4': str(uuid.uuid4()),
  'uuid1': str(uuid.uuid1()), 'hash': hash('a'), 'object': id(object()),
  'boot': open('/proc/sys/kernel/random/boot_id').read(), 'now_ms': int(time.time() * 1000),
}))`
export const OF_NODE = `
const crypto = require('node:crypto')
console.log(JSON.stringify({ bytes: crypto.randomBytes(16).toString('hex'), uuid: crypto.randomUUID(),
  web: [...globalThis.crypto.getRandomValues(new Uint8Array(16))].join(), math: Math.random(),
  now_ms: Date.now() }))`

export const specOf = (owner: WorkerId, language: Language, source: string): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 'clones',
  owner,
  program: { type: 'script', language, source },
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
})

/** What a program prints in a sandbox of its own. It must succeed. */
export async function printedBy(backend: Backend, spec: SandboxSpec): Promise<string> {
  const { signal } = new AbortController()
  await using sandbox = await backend.open(spec, signal)
  let text = ''
  const exit = await sandbox.run(spec.program, {
    onOutput: (_stream, chunk) => void (text += Buffer.from(chunk).toString()),
    maxOutputBytes: { stdout: 10_000, stderr: 10_000 },
    signal,
  })
  expect({ code: exit.exitCode, text }).toMatchObject({ code: 0 })
  return text
}
