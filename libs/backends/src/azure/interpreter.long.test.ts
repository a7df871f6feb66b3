/**
 * Conformance of `azure` with a PythonLTS pool of the double whose sessions keep what an execution started (setting `detached`). Every
 * step is an execution there, so all of it takes minutes.
 */
import { exerciseAzure } from '../../test/azure-places.ts'

const languages = ['python', 'javascript', 'typescript', 'bash'] as const

await exerciseAzure('python', { detached: true, languages: [...languages] }, { shortThemes: CARRIER_THEMES })
