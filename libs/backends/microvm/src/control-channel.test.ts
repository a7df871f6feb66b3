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

it('stops listening to a guest that goes on talking', async () => {
  const [guest, host] = duplexPair()
  const control = createControlChannel(host)
  guest.on('error', () => {}).write('{"hello": 1, "kernel": "6.1.0"}\n'.repeat(1000))
  expect(await control.hello(signal)).toBe('6.1.0')
  expect(await control.ended).toBeNull()
  expect(host.destroyed).toBe(true)
})

const WORDS = [
  '{"hello": 1, "kernel": "6.1.0"}\n',
  '{"nonce": "n"}\n',
  '{"ended": 9, "oom_kills": 2, "stderr": "last words"}\n',
]

/** A number from 0 to `below` - 1 for each call, the same in every run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Honest words that are cut, mixed with random bytes, repeated, or in a wrong order. */
function speechOf(random: (below: number) => number): Buffer {
  const parts = Array.from({ length: 1 + random(4) }, () => {
    const word = Buffer.from(WORDS[random(WORDS.length)] ?? '')
    const kind = random(4)
    if (kind === 0) return Buffer.from(Array.from({ length: random(40) }, () => random(256)))
    if (kind === 1) return word.subarray(0, random(word.length))
    if (kind === 2) word[random(word.length)] = random(256)
    return word
  })
  return Buffer.concat(parts)
}

it('answers 500 random speeches, in random pieces, by a word or a typed error, and never waits', async () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = randomOf(seed)
    const [guest, host] = duplexPair()
    const control = createControlChannel(host)
    const asked = [control.hello(signal), control.thaw({ nonce: 'n' }, signal)]
    const speech = speechOf(random)
    guest.on('error', () => {}).resume()
    for (let at = 0; at < speech.length;) {
      const size = 1 + random(16)
      guest.write(speech.subarray(at, at + size))
      at += size
    }
    guest.end()
    for (const answer of await Promise.allSettled(asked))
      if (answer.status === 'rejected')
        expect(answer.reason, `seed ${seed}`).toMatchObject({ code: 'sandbox_open_failed' })
    const end = await control.ended
    if (end !== null) expect(end, `seed ${seed}`).toMatchObject({ stderr: expect.any(String) as string })
  }
})
