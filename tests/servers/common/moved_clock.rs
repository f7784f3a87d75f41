//! Programs whose clock is wrong: a library that moves what the system's shows is loaded before them.

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *shown) {
    static int (*system)(clockid_t, struct timespec *);
    if (!system) system = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = system(clock, shown);
    const char *by = getenv("CLOCK_MOVED_BY");
    if (result == 0 && clock == CLOCK_REALTIME && by) shown->tv_sec += atoll(by);
    return result;
}
"#;

/// The library.
pub struct MovedClock(PathBuf);

impl Drop for MovedClock {
    fn drop(&mut self) {
        let dir = self.0.parent().unwrap();
        let _ = std::fs::remove_dir_all(dir);
    }
}

impl MovedClock {
    pub fn new(name: &str) -> MovedClock {
        let dir = super::scratch(name);
        std::fs::create_dir_all(&dir).unwrap();
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        std::fs::write(&source, SOURCE).unwrap();
        // Rust needs a C compiler to link.
        let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        MovedClock(library)
    }

    /// The environment of a program whose clock is so many seconds ahead.
    pub fn ahead_by(&self, seconds: i64) -> [(&'static str, String); 2] {
        [("LD_PRELOAD", self.0.to_str().unwrap().to_owned()), ("CLOCK_MOVED_BY", seconds.to_string())]
    }
}
