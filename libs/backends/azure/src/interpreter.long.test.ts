/**
 * Conformance of `azure` with a PythonLTS pool of the double that keeps started processes (setting
 * `detached`). Every step is an execution there, so it takes minutes.
 */
import { exerciseAzure } from '../test/places.ts'

await exerciseAzure('python', {
  detached: true,
  languages: ['python', 'javascript', 'typescript', 'bash'],
})
