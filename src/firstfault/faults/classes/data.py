"""What goes wrong before a batch exists: data sets, collation, workers."""

from firstfault.faults.fault import Fault, Rule

COLLATE = Fault(
    name="collate",
    family="data",
    title="the samples of a batch can't be put together",
    first_check="Compare shapes, dtypes and keys of the samples of this batch; one differs from the others.",
    avoid="Don't drop the batch or set batch_size=1: find the sample that differs, and decide what it should be.",
    also=("dataset_error", "shape_mismatch"),
    tell_apart="firstfault shrink names the sample that can't stand beside the others.",
    rules=(
        Rule(pattern=r"stack expects each tensor to be equal size|Sizes of tensors must match except in dimension|expected Tensor as element", source="ATen/native/TensorShape.cpp", only_with=r"collate|_utils/fetch\.py|DataLoader worker"),
        Rule(pattern=r"Trying to resize storage that is not resizable", source="torch/utils/data/_utils/collate.py"),
        Rule(pattern=r"each element in list of batch should be of equal size|default_collate: batch must contain|batch must contain tensors, numbers, dicts or lists", source="torch/utils/data/_utils/collate.py"),
    ),
)

DATASET_ERROR = Fault(
    name="dataset_error",
    family="data",
    title="the data set or a transform failed on a sample",
    first_check="Fetch the named sample alone: dataset[index].",
    avoid="Don't return None or another sample instead: the count of what was trained on would silently change.",
    also=("collate", "host_memory"),
    tell_apart="If the sample fails alone every time, it is the sample; if only now and then, a random transform.",
    rules=(
        Rule(pattern=r"UnidentifiedImageError|image file is truncated|broken data stream when reading image file|cannot identify image file", source="Pillow"),
    ),
)

DATALOADER_WORKER = Fault(
    name="dataloader_worker",
    family="process",
    title="a DataLoader worker died or did not answer in time",
    first_check="Run the same loader with num_workers=0: the error that the worker could not send then shows.",
    avoid="Don't just set num_workers=0 for good, and don't take the last printed line for the cause.",
    also=("host_memory", "dataset_error"),
    tell_apart="The signal tells: Bus error is shared memory, Killed is the kernel's memory killer, Segmentation fault is a library.",
    late=True,
    rules=(
        Rule(pattern=r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal|exited unexpectedly)", source="torch/utils/data/_utils/signal_handling.py, dataloader.py", never_with=r"killed by signal: (?:Bus error|Killed)|out of shared memory"),
        Rule(pattern=r"DataLoader timed out after|Pin memory thread exited unexpectedly", source="torch/utils/data/dataloader.py"),
        Rule(pattern=r"DataLoader worker \(pid[^)]*\) is killed by signal: (?:Segmentation fault|Aborted|Terminated|Illegal|Floating)", source="torch/utils/data/_utils/signal_handling.py"),
        Rule(pattern=r"An attempt has been made to start a new process before the|Can't pickle (?:local object|<function)|cannot pickle '\w+' object", source="multiprocessing", only_with=r"DataLoader|dataloader|worker|spawn|multiprocessing"),
    ),
)

CLASSES = (COLLATE, DATASET_ERROR, DATALOADER_WORKER)
