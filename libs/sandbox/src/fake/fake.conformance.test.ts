import { exerciseBackend, fakePrograms } from '../../conformance/index.ts'
import { createFakeBackend } from './index.ts'

await exerciseBackend('fake', () => createFakeBackend(), {
  programs: fakePrograms,
  refsAreLocal: true,
  parallel: 100,
})
