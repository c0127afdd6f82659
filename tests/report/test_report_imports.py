import subprocess
import sys


def test_the_light_modules_load_no_heavy_one() -> None:
    code = (
        "import sys, retrain.report, retrain.report.run_folder, retrain.report.metrics,"
        "retrain.report.batch_metrics, retrain.report.progress, retrain.report.summary,"
        "retrain.report.curve;"
        "heavy = {'rich', 'matplotlib', 'pydantic', 'numpy', 'torch', 'ruamel'};"
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
