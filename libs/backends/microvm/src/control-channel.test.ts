import { duplexPair } from 'node:stream'
import { expect, it } from 'vitest'
import { createControlChannel } from './control-channel.ts'

const { signal } = new AbortController()

it('hears a greeting in any pieces, the nonce, and how the agent ended', async () => {
  const [guest, host] = duplexPair()
  const control = createControlChannel(host)
  guest.write('{"hello": 1, "ker')
  guest.write('nel": "6.1.0"}\n')
  expect(await control.hello(signal)).toBe('6.1.0')
  const thawed = control.thaw({ nonce: 'n' }, signal)
  guest.write('{"nonce": "n"}\n{"ended": 9, "oom_kills": 2, "stderr": "last words"}\n')
  await thawed
  expect(await control.ended).toEqual({ oomKills: 2, stderr: 'last words' })
  expect(control.stderr()).toBe('last words')
})

it.each([
  ['another nonce', '{"nonce": "old"}\n', /another nonce/],
  ['no JSON', 'login:\n', /something else/],
  ['a field that is not known', '{"nonce": "n", "x": 1}\n', /something else/],
  ['a line without an end', 'x'.repeat(70_000), /too long a line/],
  ['the end of the agent', '{"ended": 1, "oom_kills": 0, "stderr": "OSError: x"}\n', /ended: OSError: x/],
])('fails a thaw that is answered with %s', async (_what, said, why) => {
  const [guest, host] = duplexPair()
  const control = createControlChannel(host)
  const thawed = control.thaw({ nonce: 'n' }, signal)
  guest.on('error', () => {}).write(said)
  await expect(thawed).rejects.toMatchObject({
    code: 'sandbox_open_failed',
    message: expect.stringMatching(why) as string,
  })
})

it('fails everything, and ends without a word, when the machine ends', async () => {
  const [guest, host] = duplexPair()
  const control = createControlChannel(host)
  const asked = control.hello(signal)
  guest.destroy()
  await expect(asked).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  expect(await control.ended).toBeNull()
})
