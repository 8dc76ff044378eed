//! The emulator as a program, for manual use: `aws-emulator --listen 127.0.0.1:4566`.

use std::net::SocketAddr;
use std::process::ExitCode;

use aws_emulator::Emulator;
use clap::Parser;

/// Emulates AWS services over HTTP until stopped; control is under /_emu.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:4566", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// How many seconds pass in a real one; 0 stands still
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    clock_factor: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let builder = Emulator::builder()
        .listen(flags.listen)
        .clock_factor(flags.clock_factor);
    let emulator = match builder.every_service().start().await {
        Ok(emulator) => emulator,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", emulator.url());
    match tokio::signal::ctrl_c().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the AWS emulator cannot wait for Ctrl-C and stops: {error}");
            ExitCode::FAILURE
        }
    }
}
