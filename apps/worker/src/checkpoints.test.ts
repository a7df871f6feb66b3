import { describe, expect, it } from 'vitest'
import { packFiles, unpackFiles } from './checkpoints.ts'

const pack = (...files: [string, string][]): Buffer =>
  Buffer.concat(packFiles(files.map(([path, text]) => ({ path, bytes: Buffer.from(text) }))))

describe('packed files', () => {
  it('are unchanged after unpacking, including empty files and names in other alphabets', () => {
    const files: [string, string][] = [
      ['checkpoint/a', 'one'],
      ['checkpoint/empty', ''],
      ['checkpoint/é/ü.bin', '\u0000\u00ff'],
    ]
    const found = unpackFiles(pack(...files)).map(({ path, bytes }) => [path, Buffer.from(bytes).toString()])
    expect(found).toEqual(files)
    expect(unpackFiles(pack())).toEqual([])
  })

  it('are refused when the blob is truncated or a path leaves the work directory', () => {
    const whole = pack(['checkpoint/a', 'some bytes'])
    for (const size of [0, 3, 4, 20, whole.length - 1])
      expect(() => unpackFiles(whole.subarray(0, size))).toThrow()
    expect(() => unpackFiles(pack(['../../etc/cron.d/x', 'x']))).toThrow(/not what was written/)
  })
})
