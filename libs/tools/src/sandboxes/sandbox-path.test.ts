import path from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { locate, locateInside } from './sandbox-path.ts'
import { WORK_FOLDER } from './session-sandbox.ts'

const ROOT = WORK_FOLDER
const part = fc.constantFrom('a', 'b c', '.', '..', '...', '')

it('resolves paths as POSIX does', () => {
  const name = fc.array(part, { minLength: 1, maxLength: 6 }).map((parts) => parts.join('/'))
  fc.assert(
    fc.property(
      name.filter((one) => one !== ''),
      (one) => {
        const { absolute, inside } = locate(ROOT, one)
        expect(absolute).toBe(path.posix.resolve(ROOT, one))
        const relative = path.posix.relative(ROOT, absolute)
        expect(inside).toBe(relative === '..' || relative.startsWith('../') ? null : relative)
      },
    ),
  )
})

it('changes nothing outside of the work folder', () => {
  for (const outside of ['/', '/tmp', `${ROOT}shop/x`, '..', '../work2', 'a/../../x', '/etc/passwd'])
    expect(() => locateInside(ROOT, outside), outside).toThrow('not in the work folder')
  expect(locateInside(ROOT, `${ROOT}/a/../b`).inside).toBe('b')
  for (const wrong of ['', 'a\0']) expect(() => locate(ROOT, wrong)).toThrow('NUL')
})
