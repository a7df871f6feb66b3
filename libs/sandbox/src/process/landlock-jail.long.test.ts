/** Conformance of the self-jail on a host without namespaces: Landlock, seccomp and the process tree. */
import { exerciseBackend, pythonPrograms } from '../../conformance/index.ts'
import { killAgent, onRung } from '../../test/host-rungs.ts'

/** /proc is closed here, which the suite's program reports as an error. */
const look = (): ReturnType<typeof pythonPrograms.look> => ({
  type: 'script',
  language: 'python',
  source: `
import os
for place in ('/proc', '/tmp', '/dev/shm', '/var/tmp', '.', '..'):
    try: print(place, os.listdir(place))
    except OSError as e: print(place, e.strerror)
`,
})

await exerciseBackend(
  'process',
  ...onRung(
    'self',
    {
      needs: ['landlock-jail'],
      destroyUnderneath: killAgent,
      programs: { ...pythonPrograms, look },
      surroundings: 'agent',
    },
    { namespaces: false },
  ),
)
