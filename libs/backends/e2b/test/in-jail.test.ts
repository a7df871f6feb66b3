/** How in-jail.py starts an agent at E2B with and without /proc, where the agent finds the mounts to wipe. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { beforeAll, expect, it } from 'vitest'

const IN_JAIL = fileURLToPath(new URL('../src/in-jail.py', import.meta.url))
/** Reports like jail.py, and then behaves like an agent. */
const JAIL = `
import json, os, sys
os.write(3, b'{"pid":7}\\n' + json.dumps({'proc': sys.argv[-1] == 'proc'}, separators=(',', ':')).encode() + b'\\n')
os.close(3)
print('agent', flush=True)
sys.stdin.read()
`

needs('bwrap').describe('in-jail.py', () => {
  const folder = temporaryFolder('in-jail')
  const jail = join(folder, 'jail.py')
  beforeAll(() => writeFileSync(jail, JAIL))

  /** Runs in-jail.py in its own pid namespace, which ends with it. Its input stays open until then. */
  const start = (option: string) =>
    promisify(execFile)(
      'bwrap',
      [
        ['--unshare-pid', '--die-with-parent', '--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'],
        ['--tmpfs', '/tmp', '--ro-bind', jail, '/tmp/jail.py', '--ro-bind', IN_JAIL, '/tmp/in-jail.py'],
        ['/usr/bin/python3', '-I', '-S', '/tmp/in-jail.py', '/tmp/jail.py', '1', '1', '1', option],
      ].flat(),
    )

  it('ends an agent that sees no /proc, and therefore no mounts to wipe', async () => {
    expect((await start('none')).stderr).toBe('jail: this sandbox lets no other /proc be mounted\n')
  })

  it('leaves the channel to an agent that sees /proc', async () => {
    const started = start('proc')
    started.child.stdin?.end()
    expect(await started).toEqual({ stdout: 'agent\n', stderr: '' })
  })
})
