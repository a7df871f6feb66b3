/** Output: every byte, in order, within limits, and at the reader's speed. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

const MiB = 1_048_576

export function output(h: Harness): void {
  const { programs } = h

  test('keeps the streams separate and each in order', async () => {
    const lines = Array.from({ length: 50 }, (_, n) => n)
    const { stdout, stderr } = await h.once(
      programs.write(lines.flatMap((n) => [['stdout', `o${n}\n`] as const, ['stderr', `e${n}\n`] as const])),
    )
    expect(stdout.toString()).toBe(lines.map((n) => `o${n}\n`).join(''))
    expect(stderr.toString()).toBe(lines.map((n) => `e${n}\n`).join(''))
  })

  test('loses none of 4 MiB of output', async () => {
    const { exit, stdout } = await h.once(programs.flood(4 * MiB))
    expect(stdout.length).toBe(4 * MiB)
    expect(stdout.equals(Buffer.alloc(4 * MiB, 'x'))).toBe(true)
    expect(exit.outputBytes).toEqual({ stdout: 4 * MiB, stderr: 0 })
    expect(exit.outputDropped).toEqual({ stdout: false, stderr: false })
  })

  test('passes on the requested amount, counts the rest, and lets the program end', async () => {
    const { exit, stdout } = await h.once(
      programs.flood(8 * MiB),
      {},
      { maxOutputBytes: { stdout: 10_000, stderr: 0 } },
    )
    expect(stdout.length).toBe(10_000)
    expect(exit).toMatchObject({
      exitCode: 0,
      outputBytes: { stdout: 8 * MiB, stderr: 0 },
      outputDropped: { stdout: true, stderr: false },
    })
  })

  test('does not report output as dropped if it fits exactly', async () => {
    const { exit, stdout } = await h.once(
      programs.flood(1000),
      {},
      { maxOutputBytes: { stdout: 1000, stderr: 1000 } },
    )
    expect(stdout.length).toBe(1000)
    expect(exit.outputDropped).toEqual({ stdout: false, stderr: false })
  })

  test('drains a stream with a limit of zero bytes', async () => {
    const { exit, stdout } = await h.once(
      programs.flood(200_000),
      {},
      { maxOutputBytes: { stdout: 0, stderr: 0 } },
    )
    expect(stdout.length).toBe(0)
    expect(exit).toMatchObject({
      exitCode: 0,
      outputBytes: { stdout: 200_000 },
      outputDropped: { stdout: true },
    })
  })

  test('passes every byte value on, even invalid UTF-8', async () => {
    const bytes = Buffer.from([...Array(256).keys(), 0xc3, 0x28, 0xff, 0xfe, 0xed, 0xa0, 0x80, 0x00])
    const { stdout } = await h.once(programs.binary(bytes))
    expect(stdout.equals(bytes)).toBe(true)
  })

  if (h.capabilities.streaming)
    test('passes output on while the program runs', async () => {
      const program = programs.printThenWait('first line')
      const sandbox = await h.open(program)
      const { ended } = await h.start(sandbox, program, 'first line')
      await sandbox[Symbol.asyncDispose]()
      await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
    })

  test('waits for a slow reader, with one chunk at a time and less than 8 MiB in memory', async () => {
    let reading = 0
    let most = 0
    let got = 0
    const { exit } = await h.once(
      programs.flood(8 * MiB),
      {},
      {
        onOutput: async (_stream, chunk) => {
          reading += 1
          most = Math.max(most, reading)
          got += chunk.length
          await sleep(1)
          reading -= 1
        },
      },
    )
    expect({ most, got, exitCode: exit.exitCode }).toEqual({ most: 1, got: 8 * MiB, exitCode: 0 })
  })

  test('ends a run with its reader’s error', async () => {
    // A program that waits for its reader, unless output comes only at the end.
    const program = h.capabilities.streaming
      ? programs.printThenWait('ready')
      : programs.write([['stdout', 'ready']])
    const sandbox = await h.open(program)
    const broken = new Error('the reader broke')
    await expect(
      h.run(sandbox, program, {
        onOutput: () => {
          throw broken
        },
      }),
    ).rejects.toThrow()
  })
}
