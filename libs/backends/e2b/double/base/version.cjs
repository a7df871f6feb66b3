/** What E2B’s template `base` is reported to have. */
Object.defineProperty(process, 'version', { value: 'v20.9.0' })
